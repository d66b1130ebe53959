// Package routing chooses the route of a request by its method, host and path, with the
// patterns of [net/http.ServeMux]:
//
//	[METHOD ][HOST]/[PATH]     GET example.com/blog/{slug}
//
// The most specific pattern that matches wins; two patterns that overlap without one being
// more specific are an error. It differs from ServeMux in three points, because it stands in
// front of servers that it does not know:
//
//   - It never redirects. "/account/" and "/account/{$}" also match "/account", unless that has a
//     pattern of its own, since many servers answer both alike.
//   - A path that a server behind may read in several ways, which would lead to different
//     routes, is refused: "//account/", "/x/../account/", "/account%2Fx", "/account;x/".
//   - Find takes no lock and does not allocate, except for a path of that kind.
package routing
