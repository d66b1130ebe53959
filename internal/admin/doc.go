// Package admin is the admin API of a cache: HTTP and JSON, and its client. Its callers can
// read and change everything that is stored of every page.
//
//	isr command ── socket in the data folder ──┐
//	isr command ── pipe, no server runs ───────┼─► API ─► isr.Cache, stores
//	any client ─── TCP, bearer token ──► guard ┘
//
// All three use one [API]. [API.Handler] trusts all of its callers; [API.Guarded] requires a
// token and refuses web pages. Every response is JSON, and every error is an [Error]. Each
// operation has a file with its input, output and handler. GET /-/openapi.json is generated
// from the same types, so that it is always up to date. Every change is logged with its
// caller and result.
//
// To add an operation, write its file (a handler and a method of [Client]) and add it to
// operations.
package admin
