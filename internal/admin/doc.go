// Package admin is the admin API of a cache: HTTP and JSON, and its client. Its callers can
// read and change everything that is stored of every page.
//
//	isr command ── socket in the data folder ──┐
//	isr command ── pipe, no server runs ───────┼─► API ─► isr.Cache, stores
//	any client ─── TCP, bearer token ──► guard ┘
//
// All three use one [API]. [API.Handler] trusts all of its callers; [API.Guarded] requires a
// token and refuses web pages. Every response is JSON, and every error is an [Error].
// GET /-/openapi.json is generated from the types of the operations, so that it is always up
// to date. Every change is logged with its caller and result.
//
//	api.go         what serves the operations, and their list
//	operation.go   how an operation reads its input and writes its output; openapi.go describes it
//	client.go      what commands call
//	guard.go       tokens and roles, and what they may do; session.go signs browsers in
//	audit.go       the latest changes; events.go sends them to the console as they happen
//
// The operations, each with its input, output, handler and the method of [Client]:
//
//	page.go, body.go, versions.go, lease.go, explain.go   one page
//	search.go, index.go                                   all pages
//	regenerate.go, quarantine.go, gc.go                   renders, and what they leave
//	purge.go, purgemethod.go, purges.go, outbox.go        purges, and where they have arrived
//	status.go, server.go, fleet.go                        this server, and the others
//
// To add an operation, write its handler and its method of [Client], and add it to operations.
package admin
