// Package admin is the operator's way into a cache: an HTTP API in JSON, and its
// client. Whoever may use it can see what is stored of every page, and change it.
//
//	isr command ── socket in the data folder ──┐
//	isr command ── pipe, no server runs ───────┼─► API ─► isr.Cache, stores
//	anybody ────── TCP, bearer token ──► guard ┘
//
// There is one [API] behind all three; [API.Handler] trusts whoever reaches it, and
// [API.Guarded] asks for a token and keeps browsers out. Every answer is JSON, and
// every one that is not a success is an [Error]. What an operation is, what it takes
// and what it answers stands in one file per operation, from which GET
// /-/openapi.json is made too, so that the document cannot fall behind. A change
// leaves one line in the log, whoever made it and whatever became of it.
//
// An operation is added by writing its file (a handler, a method of [Client]) and
// naming it in operations.
package admin
