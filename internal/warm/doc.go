// Package warm renders the pages of sitemaps before visitors ask for them, from a schedule.
//
// The problem: the first visitor after a page has expired waits for its render. A cron job that asks for all pages
// competes with visitors, runs once per server or nowhere, and renders pages that are fresh.
//
// The model: time is cut into periods. All servers of a table know the schedule; one of them claims a period by a request record
// under a lease, as a webhook is claimed by one server, and runs:
//
//	period ─► jitter ─► claim ──held elsewhere, or done──► wait
//	                      └─► read the sitemaps ─► each URL: Find ──fresh, or not cached──► count
//	                                                           └─due─► rate ─► no visitor waits ─► Render
//	                    end: done · stopped (another server goes on) · failed (back-off of the fleet)
//
// The guarantees:
//
//   - A period is run to its end once, by one server, whichever restart or crash. A run that is cut off by the end of its
//     server, or by a change of the schedule, goes on elsewhere: what was rendered is fresh, and is not rendered again.
//   - A run renders no more pages a second than the rate, begins no render while visitors wait for renders, and ends at once if the
//     circuit breaker of an origin is open.
//   - One file of the sitemaps is in memory at a time, and an index.
package warm
