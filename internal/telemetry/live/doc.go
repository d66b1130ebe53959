// Package live keeps what a server did in the last hour, in a fixed amount of memory, for the
// operator's console and isr top:
//
//	telemetry.Sink ──► counters of this second ──┐
//	isr.Observer ───► counters of slow work ─────┼─► Snapshot: an hour by minutes, a minute by seconds
//	        └───────► top lists, failing pages, happenings
//
// A hit costs three atomic additions and, at most 128 times a second and processor and for one
// in 16 after that, an entry in the list of the most requested pages. Nothing is written
// anywhere, and nothing of a request is kept but its key and route.
package live
