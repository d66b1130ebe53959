// Package server is what isr serve, isr worker and isr lambda run, and what other commands need of it.
//
// A server is made in this order, and stops in the reverse one (server.go has the list of its parts):
//
//	flags and file ──► stores ──► cache ──► site (routes, origins) ──► listeners
//	settings.go        stores.go  backend.go site.go                   public.go, acme.go, admin.go, folder.go
//
// The sockets of the listeners may come from a service manager or from a process before this one, and pass on to the one
// after it (handover.go).
//
// While it runs, reloader.go replaces the configuration, health.go reports whether it is ready, process.go
// describes it to operators, and limits.go keeps the process within its memory, processors and open files.
//
// Commands reach a running server through the socket in its data folder ([DialSocket]). Without one they claim
// the folder ([Claim]), open the stores themselves ([StoreFlags]), and ask the same API ([AskWithin]).
package server
