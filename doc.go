// Package isr caches rendered pages, and regenerates each page once per expiry, whatever
// the number of servers and visitors: incremental static regeneration (ISR) for any
// http.Handler.
//
// # Problem
//
// Rendering a page is slow, and most visitors could get the page that was rendered a
// moment ago. If every server has a cache of its own, each page is rendered once per
// server. A cache that blocks makes visitors wait at each expiry. A careless one serves
// one visitor's page to another, or loses a purge that came at the wrong moment.
//
// # Model
//
// A request is projected onto a [store.Key]: host, path, declared query parameters,
// declared headers, tenant. The renderer gets a request that is built from the key alone,
// so that nothing else can affect what other visitors are served. The current
// [store.Entry] of a key is kept in a [store.MetaStore], its body in a [store.BodyStore];
// all servers share both. An entry is fresh for a window, then stale for another one, in
// which it is served at once while a new one is rendered in the background
// (stale-while-revalidate). [store.Freshness] is the only rule for that.
//
//	request ──► key ──► memory ──fresh──────────────────────────► response
//	                      │  └────stale──────────────────────────► response
//	                      │          └─► in the background: ┐
//	                      └─miss─────► single flight per key and process
//	                                     │ read META: another server's page? ──► response
//	                                     │ acquire LOCK: one server of all
//	                                     │ render, write the body
//	                                     └ publish META, delete LOCK ──────────► response
//
// # Guarantees
//
//   - One regeneration per expiry across all servers, by a lease that expires when its
//     server crashes, and that a frozen server cannot use.
//   - A stale writer never overwrites a newer page: a publish is conditional on what it
//     replaces.
//   - A rollback is one step that every server sees within a poll of the log. No
//     regeneration that began before undoes it, nor any while the page is pinned.
//   - A regeneration with an idempotency key is executed once, however often it is
//     requested, and whichever server crashes.
//   - Private responses are never shared. Caching is opt-in: a response with Set-Cookie,
//     private, no-store, or a Vary on something outside the key is not stored, and not
//     served to the requests that waited for it.
//   - A failing renderer never replaces a good page: errors, and empty or truncated
//     bodies, leave the stored page in place, to be served while it is stale.
//   - Every response reports what happened, in Cache-Status (RFC 9211).
//
// The stores are in packages dynamostore (DynamoDB, or the embedded engine of package
// localdynamo), s3body and dirbody. Package gateway serves the pages of another server,
// and cmd/isr is all of it in one binary.
package isr
