// Package fastpath serves requests on connections of plain HTTP/1.1 without net/http, which costs more
// than half of a hit in memory:
//
//	httpconn.FastPath ──► Responder ──► isr.HitHandler ── hit ───► one write, and telemetry.Recorder
//	   bytes, deadlines     │  head      the decision of the cache
//	   and Shutdown         │
//	                        └── other ──► the handler of the server, by httpconn.Client.Serve
//
// The package only turns a head into an http.Request; what is decided by that request is decided by
// the code that serves it otherwise: the edge, the routes, the projection onto a key, freshness,
// conditions and codings. So no rule is stated twice. When in doubt the request is net/http's:
//
//   - for all that follows on the connection: another method than GET and HEAD, another version than
//     HTTP/1.1, a body (Content-Length or Transfer-Encoding, whatever their values), and a head that
//     is not strictly valid: bare LF, folded lines, spaces around names, control characters, no Host
//     or several.
//   - for this request: a target that is not a plain path (absolute form, percent-encoding, "//"),
//     Connection other than keep-alive, Upgrade, Expect, Pragma, repeated fields, bytes beyond
//     ASCII, a Host that net/http refuses, and a head that is not whole or longer than net/http's
//     buffer, 4 KiB.
//
// The first request of a connection is always net/http's. The equality of both is tested by
// byte streams, also at random: see TestStreams and FuzzStreams.
//
// # Texts of requests
//
// The texts of a request that may be a hit are parts of net/http's buffer, so that a hit allocates
// nothing. They are valid until Respond returns. So nothing that is called for a hit may keep one of
// them: what the cache and the sinks keep are keys of pages, names of routes, and copies. A request that a
// handler serves has copies of its own.
package fastpath
