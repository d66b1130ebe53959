package metrics

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/facetheory/isr"
)

// maxEventSeries bounds the series of one kind of events.
const maxEventSeries = 24

// eventMetrics count what happens in a moment.
type eventMetrics struct {
	counters    map[isr.EventKind]*table[string, prometheus.Counter] // by reason; never written after it was made
	purges      *table[purgeKey, prometheus.Counter]
	propagation prometheus.Histogram
	collected   prometheus.Counter
	messages    *prometheus.CounterVec
}

// A purgeKey has the labels of isr_purges_total.
type purgeKey struct{ kind, mode string }

func newEventMetrics(r prometheus.Registerer) eventMetrics {
	purges := counterVec(r, "isr_purges_total", "Purges by this process, by the kind of their first target and by mode.", "kind", "mode")
	m := eventMetrics{
		purges: newTable(maxEventSeries, func(k purgeKey) prometheus.Counter {
			return purges.WithLabelValues(k.kind, k.mode)
		}, func(k purgeKey) purgeKey { return purgeKey{Other, k.mode} }, purgeKey{Other, Other}),
		counters:    make(map[isr.EventKind]*table[string, prometheus.Counter]),
		propagation: histogram(r, "isr_purge_propagation_seconds", "Time until a committed change, such as a purge by another process, took effect here.", spreadBuckets),
		messages:    counterVec(r, "isr_queue_messages_total", "Messages of a queue (purges or regenerations) that were received, by what happened to them: executed, refused (left to the dead-letter queue), later (left for a while), or returned (this process stops).", "queue", "result"),
		collected:   counter(r, "isr_gc_removed_bytes_total", "Bytes of stored bodies that garbage collection has removed."),
	}
	for kind, family := range map[isr.EventKind]struct {
		name, help, label string
		known             []string // reasons that are 0 from the start
	}{
		isr.EventLease:      {"isr_leases_total", "Leases, by what happened to them.", "result", []string{"acquired", "busy", "taken-over", "lost", "released"}},
		isr.EventPeer:       {"isr_peer_waits_total", "Leases whose holders were asked directly to report when they end their work: ended (they reported it), or silent.", "result", []string{"ended", "silent"}},
		isr.EventPeerBody:   {"isr_peer_bodies_total", "Stored bodies that peers were asked for: hit (sent), absent (the peer does not have it), busy (it sends too many), slow (the bucket was asked as well), failed (no answer), or wrong (it sent something else).", "result", []string{"hit", "absent", "busy", "slow", "failed", "wrong"}},
		isr.EventPeerServed: {"isr_peer_bodies_served_total", "Stored bodies that this process was asked for by peers: sent, or absent (not in its memory or on its disk).", "result", []string{"sent", "absent"}},
		isr.EventQueue:      {"isr_queue_requests_total", "Stale pages that were left to the queue of regenerations: sent, pending (sent a short while ago), or failed.", "result", []string{"sent", "pending", "failed"}},
		isr.EventNotStored:  {"isr_not_stored_total", "Rendered pages that were not stored, by the detail of Cache-Status.", "reason", nil},
		isr.EventEvicted:    {"isr_memory_evictions_total", "Pages that left memory, by cause: size (the limit), or reloaded (changed, purged by their keys, rolled back or pinned).", "cause", []string{"size", "reloaded"}},
		isr.EventPoll:       {"isr_polls_total", "Reads of the log of changes by other processes.", "result", []string{"ok", "error"}},
	} {
		vec := counterVec(r, family.name, family.help, family.label)
		counters := newTable(maxEventSeries, func(reason string) prometheus.Counter { return vec.WithLabelValues(reason) }, func(string) string { return Other }, Other)
		for _, reason := range family.known {
			counters.get(reason)
		}
		m.counters[kind] = counters
	}
	return m
}

// Message returns the function that counts the messages of a queue by their result, of a closed set.
func (m *Metrics) Message(queue string) func(result string) {
	return func(result string) { m.events.messages.WithLabelValues(queue, result).Inc() }
}

// Note implements isr.Observer.
func (m *Metrics) Note(e isr.Event) {
	if counters, ok := m.events.counters[e.Kind]; ok {
		counters.get(e.Reason).Inc()
	}
	switch e.Kind {
	case isr.EventPurge:
		m.events.purges.get(purgeKey{cmp.Or(e.Target, Other), e.Reason}).Inc()
	case isr.EventApplied:
		if e.Took > 0 { // zero for changes whose rows have no time
			m.events.propagation.Observe(e.Took.Seconds())
		}
	case isr.EventCollected:
		m.events.collected.Add(float64(max(e.Bytes, 0)))
	}
}
