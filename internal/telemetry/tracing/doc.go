// Package tracing makes spans of OpenTelemetry of requests and of the work of a cache:
//
//	GET /blog/{slug}            a request (server); continues the trace of a trusted peer
//	└ isr.flight                finding or rendering the page, once for all that wait for it;
//	  │                         linked to the requests that join
//	  ├ isr.table read          calls of the stores (client)
//	  ├ isr.lease               waiting while another process holds the lease
//	  ├ isr.queue               waiting for a turn at the origin
//	  └ isr.render              linked to the request that caused it
//	    └ GET                   the request to the origin (client), which gets traceparent
//
// A render has the trace of the request that caused it, and goes on if the visitor goes away.
// The trace context of a visitor is dropped: it decides nothing, reaches no origin and is
// in no page. Attributes are bounded, and have no query parameters, cookies, or texts of errors.
package tracing

// The files:
//
//	request.go   spans from the visitor and to the origin
//	observer.go  spans of renders, waits and store calls
