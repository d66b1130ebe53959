// Package nodecache keeps what one node knows of pages: pages and outcomes of renders, and the purges
// by which it judges them.
//
// The problem: a hit is answered from memory, without a look at the table. Nevertheless no visitor may
// get a page that this node knows to be purged, rolled back or withdrawn. Reads of the table take time:
// what a read returns may be older than what the node learned while it waited. And requests for
// invented URLs must not displace the pages of the site.
//
// The model: a Cache has three tiers, each bounded by weight, and the purges that judge all of them.
//
//	           ┌ pages        read from the table, or published by this node
//	key ──────►├ stubs        evicted pages without their bodies: one read of the body makes a hit
//	           ├ Negative     refusals, failures and negative answers such as 404
//	           └ Unpublished  pages that were rendered and could not be stored, for a few seconds
//
//	judge by   │ the page's purges, as read with it and as its flight has learned since
//	           │ marks of tags, prefixes, tenants and the site: Marks
//	           │ the build of the site
//	           │ Flush: nothing is served that was read before
//
// What is put carries the interval of its read. Pages are put by flights (see package singleflight),
// and each flight records when its page was invalidated:
//
//	Invalidate: flights learn of it ──► pages are dropped
//	Put:        under the lock of the key: was the flight told since the read began? ──► keep
//
// Either Put sees the invalidation, or Invalidate sees the page. That is why the flights come first.
//
// Guarantees:
//   - After Invalidate or Flush returns, nothing that was read before is served, however late the read
//     returns and whatever its caller puts.
//   - If two reads of a page overlap and differ, neither is taken for the newer one: Put says so, and the
//     caller invalidates the page.
//   - A page that was dropped is dropped wherever it is: a page that was made of a stub shares its mark.
//   - Memory is bounded: pages and stubs share one bound, negative entries and unpublished pages have
//     bounds of their own. Pages that changed lately are remembered in a bounded table.
//   - Get, Purges, State and Acceptable take no lock of their own, and allocate nothing.
//
// Sections know what a Cache does not: of which parts of a site the pages are likely not cacheable at all.
//
// All instants of reads are of the process's monotonic clock.
package nodecache
