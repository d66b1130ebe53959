// Package fill fills the cache: it finds the page of a key in the store, or has it rendered and stores it.
//
// The problem: of all processes that share a store, one is to render a page, once per expiry. Its origin
// has a budget; the store may be slow, or down; others may purge, pin and roll back the page during all of that; and
// the process may crash between any two steps. Visitors who wait must get a page soon, and never one that
// was purged before they came.
//
// The model: an Engine executes fills, each of which is the work of a Flight, the single flight of a key:
//
//	requests ──► Join ──► Flight ──► Fill: a loop of steps (see fill.go, which has a drawing of them)
//	                        │          ├ reads META, waits for a turn at the origin, acquires the lease
//	                        │          ├ renders, or validates, by the Policy of the route
//	                        │          └ publishes; or backs off, withdraws, quarantines
//	                        └─► Outcome: StoredPage, RenderedPage, UnpublishedPage, Refusal or Failure
//
// JoinUnpublished starts a flight of the same key that calls no store, for visitors of whom the store takes
// too much time. DryRun executes the steps of a fill without their effects, and tells an Explainer what
// they find.
//
// Guarantees:
//   - Effects have one order, which fill.go states. After a crash at any step there is at most a lease,
//     which expires, and a body that no row refers to.
//   - A page has the purge sequence from before its render: a purge that commits later covers it.
//   - No page is published without the lease, and none that another writer's publish, pin or rollback
//     has overtaken.
//   - A fill goes on if its visitors go away, and ends once Options.Closing does.
//   - What visitors wait for is bounded: by Options.StoreTimeout for the store, by Policy.Wait for others.
package fill
