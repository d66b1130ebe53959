// Package page is a stored response that is ready to be sent: what memory keeps of a cached page, and how a
// visitor gets it.
//
// The problem: a hit must cost nearly nothing. It takes no lock, allocates nothing and reads no store; and yet its
// Age and Cache-Status change each second, its coding depends on the visitor, the route has fields of its own,
// and conditions, ranges and HEAD have answers of their own.
//
// The model: a [Page] is an entry with its body. It is immutable, except for a few atomic fields. A [View] is how a route
// presents pages; it is applied when a page is sent, so that a change of the route needs no new page.
//
//	New, NewDetached ──► Page ──┬─► ServeHit   a hit, by net/http
//	        ▲                   ├─► Raw        a hit as bytes, for servers without net/http
//	  entry, body,              ├─► Serve      the page with any Cache-Status, such as instead of a failure
//	  purges, View              └─► Begin      the header of a page that is still rendered
//
//	hitFields   Age, Cache-Status and lifetimes of one second: made by its first hit, shared by the others
//	head        status line and header as bytes, made once per hitFields and representation
//	codings     the body in br, zstd and gzip, as far as visitors have asked for them
//
// A detached page has no body in memory: HEAD and 304 need none, and ranges and long bodies are read from the
// store as they are sent ([BodyStore]). A long body that is being sent counts against [ResponseMemory], since it
// stays in memory for as long as the slowest visitor takes it. The compact form of an entry ([Pack]) is what
// memory keeps of pages that were evicted.
//
// Guarantees:
//   - ServeHit and Raw take no lock and allocate nothing, except for the first hit of a second.
//   - Raw returns the bytes that net/http would send for ServeHit, or false.
//   - What visitors get is never cut silently: a stored body that cannot be read to its end breaks the
//     connection, and is reported as suspect.
//   - Pages know no store of entries and no rules of freshness: the caller judges them first, and passes the
//     state.
package page
