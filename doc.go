// Package isr is a cache of rendered pages that regenerates each page once per
// expiry, whatever the number of servers and visitors: incremental static
// regeneration (ISR) for any http.Handler.
//
// # Problem
//
// Rendering a page takes long, and most visitors could be given the one that was
// rendered a moment ago. A cache in each server renders every page once per
// server; one that blocks makes visitors wait at each expiry; one that is careless
// serves one visitor's page to another, or forgets a purge that came at the wrong
// moment.
//
// # Model
//
// A request is projected onto a [store.Key]: host, path, declared query parameters,
// declared headers, tenant. The renderer of a page sees a request made of the key
// alone, so that nothing else can colour what others are served. The current
// [store.Entry] of a key is kept in a [store.MetaStore], its body in a [store.BodyStore]; both are
// shared by all servers. An entry is fresh for a window, then stale for another,
// in which it is served at once while a new one is made behind; [store.Freshness] is the
// one rule.
//
//	request ──► key ──► memory ──fresh──────────────────────────► answer
//	                      │  └────stale──────────────────────────► answer
//	                      │          └─► behind: ┐
//	                      └─missing──► one flight per key and process
//	                                     │ read META: another server's page? ──► answer
//	                                     │ acquire LOCK: one server of all
//	                                     │ render, write the body
//	                                     └ publish META, give up LOCK ─────────► answer
//
// # Guarantees
//
//   - One regeneration per expiry across all servers, by a lease that a crashed
//     server loses and a frozen one cannot use.
//   - No stale writer overwrites a newer page: a publish names what it replaces.
//   - A rollback is one step, seen by every server within a poll of the log, and
//     never undone by a regeneration that began before, nor by any while it is
//     pinned.
//   - A regeneration that is asked for by name is carried out once, however often
//     it is asked for, and whichever server dies over it.
//   - What is private stays so: caching is opt-in; a response with Set-Cookie,
//     private, no-store, or a Vary on what is in no key, is neither stored nor
//     shared with those who waited for it.
//   - A failing renderer changes nothing: errors, and empty or truncated bodies,
//     never replace a good page, which is served on while it is stale.
//   - Every response says what happened, in Cache-Status (RFC 9211).
//
// Stores are in the packages dynamostore (DynamoDB, or the embedded engine of
// package localdynamo), s3body and dirbody; package gateway serves another
// server's pages; cmd/isr is all of it in one binary.
package isr
