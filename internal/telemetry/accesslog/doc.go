// Package accesslog writes a line for each request, as JSON with the names of OpenTelemetry's
// semantic conventions, or as text in the Combined Log Format with fields of the cache behind.
//
//	request ──► line ──► buffer (bounded) ──► one goroutine ──► file or standard output
//	                       └► full: dropped, counted
//
// A request never waits for the log. Lines contain neither cookies nor Authorization, no query
// parameter that the route does not declare, and no query of the referring page. Each value is
// bounded in length, and escaped.
package accesslog
