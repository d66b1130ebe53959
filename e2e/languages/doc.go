// Package languages has only tests: services in Go, TypeScript and Python share one
// table.
//
//	test ──{"id":1,"do":"acquire","key":…}──► worker in Go         ──┐
//	  ▲                                  └──► worker in TypeScript ──┼─► DynamoDB Local,
//	  └──{"id":1,"ok":…} or {"error":…}──────  worker in Python    ──┘   or isr dynamodb
//	                                           isr serve ────────────┘   (and S3)
//
// The tests cover every pair of languages:
//
//   - At most one of the contenders in all languages holds a lease, and only the holder
//     publishes: a counter that the holder increments without a condition ends at the
//     same value as the fence. This holds while others break leases.
//   - A generation published by one is read by all, and served by isr serve. A rollback,
//     pin or unpin by one is visible to all.
//   - A purge by one takes effect for all, for isr serve, and for the cacheHandler of Next.js,
//     whose revalidations take effect for all.
//   - A lease is visible to all, and any may break it; all respect a back-off. A holder
//     that loses its lease gets LeaseLost, also from a heartbeat after a freeze.
//   - A request started by one is in progress for all, completed for all, and refused by
//     all for other inputs. If its holder is killed, another takes over the request and
//     the lease after they expire, and not before.
//   - Rows with only the attributes of the reference are served and replaced by all.
//     Unknown attributes and rows survive every operation. All report the same row and
//     attribute for malformed and encrypted values.
//   - What one encrypts, with a master key that it added to a key file, all decrypt.
//
// The workers use the clients as their users install them: worker.mjs, worker.py, and
// this test binary for Go.
package languages
