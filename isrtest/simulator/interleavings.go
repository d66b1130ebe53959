package simulator

// Interleavings are the names in [Report.Counts] that a run of all profiles must count at
// least once: an invariant that could never fail proves nothing.
func Interleavings() []string {
	return []string{
		// Renders and leases.
		"page changed before its lease was taken",
		"takeover",
		"thaw after the lease",
		"acquire refused by LOCK",
		"publish refused by META",
		"publish refused by LOCK",
		"lost reply to acquire",
		"lost reply to refresh",
		"lost reply to publish",
		"lost reply to rollback",
		"late",
		"judged due",
		"judged alone",
		"conditional render",
		"renewal",
		// Stores that fail, hang, lag or deny.
		"table hangs",
		"bucket hangs",
		"body denied",
		"body lost",
		"render without the lease",
		"weak read of the past",
		"read of a transaction in part",
		"conflict with a transaction in part",
		// The log.
		"log gap",
		"log lost",
		"log row trimmed",
		"log row malformed",
		"log row behind SEQ",
		"thaw after half the log's life",
		"shared log row",
		"rollback refused by SEQ",
		"judged contended",
		// Peers.
		"peer said that a lease has ended",
		"peer lied of a lease",
		"peer sent a body",
		"peer lied of a body",
		"peer heard of a change",
		// Rollbacks, pins and purges.
		"rollback during a render",
		"rollback refused by META",
		"rollback refused for a purge",
		"publish over a pin",
		"publish over a pin without its body",
		"pinned page instead of a failure",
		"purge during a render",
		"purge by tag",
		// Purges that the nodes make.
		"purge by a node during a render",
		"purge refused by SEQ",
		"lost reply to purge",
		"purge of unknown outcome",
		"purge reported as failed",
		"purges share a transaction",
		"purge shares a transaction with a rollback",
		"purging node crashed",
		"purging node froze",
		"hard purge by mark of a page in memory",
		"judged after an own purge",
		// Unsafe requests.
		"unsafe request during a render",
		"unsafe request soon after another one",
		"judged after an unsafe request",
		// Visitors with the receipt of a purge.
		"receipt ahead of the node",
		"receipt refused as too high",
		"no page for a receipt",
		"judged by a receipt",
		// Memory, requests, and the collection of garbage.
		"served from memory",
		"served cut off",
		"hit after a long silence",
		"request replayed",
		"publish during a collection",
	}
}
