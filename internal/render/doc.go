// Package render calls a renderer once, records its response, and lets visitors read it while it comes.
//
// The problem: a renderer may take minutes, hang, panic, break off, answer with more than memory has room
// for, or with what must not be shared. A visitor who waits for the page wants its first bytes at once, and
// a visitor who is slow must slow neither the render nor the others.
//
// The model: the renderer writes to a [Recorder], which judges the header before anything of the body is
// kept.
//
//	           judged by its header
//	renderer ──► Recorder ──► Stream ──► Rendering: the body as a whole, to be stored
//	                │            ├─────► Reader: the visitor whose request has started the render
//	                │            └─────► Readers: those who have joined, from the beginning
//	                ├ Audience.Begun    the first bytes of a response that may be stored are here
//	                └ Audience.Refused  it must not be stored, and is for one visitor at most
//
// The body is kept once, and bounded by Call.MaxBody and by a budget (see [Memory]). Each visitor is
// written to by the goroutine of their request, at their own pace, by pieces that are copied from the body.
// Once the page is stored, its readers get the rest from the store ([Stream.Move]).
//
// Guarantees:
//   - [Do] returns when its context ends, at the latest after Call.Limit, even if the renderer does not.
//   - A Rendering has exactly one of a response, a reason to refuse it, and a failure. A response that was cut
//     off, or that exceeds a limit, is never one that may be stored.
//   - A render that breaks breaks the connections of its visitors: none takes a part for the whole.
//   - If what is rendered will not be stored, because the lease is lost or the body is too large, the render
//     goes on for those who have attached, and ends when the last of them leaves. Beyond MaxBody
//     nothing more is kept: the renderer then waits for the slowest of them.
//   - The end of a response waits until the page is stored or will not be, so that a visitor who has read a
//     whole page finds it stored; a store that is slow delays it until the overdue channel is closed.
package render
