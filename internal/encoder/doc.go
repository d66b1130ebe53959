// Package encoder makes the content codings of pages (br, zstd and gzip) in the background, and stores
// them beside the bodies, for all processes.
//
// The problem: a coding that is worth storing takes up to a second of a processor, a page has thousands
// of visitors who want it, and a fleet has many processes. No visitor may wait for it, and no body may be
// encoded again for each process, or each time that a page is evicted.
//
// The model: one object beside a body has all its codings, and is made when a visitor first wants one.
//
//	a hit  ──► the page has the coding that the visitor prefers: it is written
//	       └─► otherwise a coding that the page has, or the body, is written; Want
//	a load ──► Prefetch reads the coding that the visitor prefers beside the body
//	a new generation with the codings of the last one ──► Succeed
//
//	Want, Succeed ──► queue ──► read the codings beside the body ──► Options.Reweigh
//	                                      └ there are none: make all codings of the route,
//	                                        and store them beside the body
//
// The page in memory keeps the codings that were wanted. A few pages are worked on at once, and one of
// them is encoded.
//
// Guarantees:
//   - Want and Succeed do not wait. The queue is bounded by pages and bytes; what does not fit is
//     dropped, and asked for again by a later visitor.
//   - Prefetch delays a page by 50 ms at most, in addition to its body.
//   - Nothing depends on stored codings: if a process crashes, or they are lost or damaged, they are made
//     again. They are verified with the digest of the entry whose body they belong to.
//   - Nothing is stored while Options.Full returns true, and no work begins after Shut.
package encoder
