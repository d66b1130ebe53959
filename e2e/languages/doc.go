// Package languages has only tests: one table, and services in Go, TypeScript and
// Python that share it.
//
//	test ──{"id":1,"do":"acquire","key":…}──► worker in Go         ──┐
//	  ▲                                  └──► worker in TypeScript ──┼─► DynamoDB Local,
//	  └──{"id":1,"ok":…} or {"error":…}──────  worker in Python    ──┘   or isr dynamodb
//	                                           isr serve ────────────┘   (and S3)
//
// What is proven, of each language towards each other one:
//
//   - Of contenders in all languages one at a time holds a lease, and nobody else
//     publishes: a count that is raised by the holder, without any condition, ends
//     where the fence does. So it is while others break leases.
//   - A generation that one publishes is read by all, and served by isr serve. What
//     one rolls back, pins or unpins, all see.
//   - A lease is seen, and broken, by all; a back-off is kept by all. Who loses a lease
//     learns it, be that by a heartbeat after a freeze.
//   - A request that one has started is in progress to all, completed to all, and
//     refused by all to others' inputs. If its holder is killed, another takes over
//     the request and the lease when they have ended, and not before.
//   - Rows with the attributes of the reference alone are served and replaced by all;
//     attributes and rows that nobody knows yet survive everyone; what is malformed or
//     encrypted is named alike.
//
// The workers run the clients as their users install them: worker.mjs, worker.py,
// and this test binary for Go.
package languages
