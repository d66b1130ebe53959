package metrics

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/facetheory/isr"
)

// Sources are asked at a scrape, at most once a second. Those that are nil are left out. They
// must be safe for concurrent use.
type Sources struct {
	// Cache is isr.Cache.Stats.
	Cache func() isr.Stats
	// Origins are the origins of the configuration.
	Origins func() []Origin
	// Capacity is the consumed capacity of the table, in read and write units.
	Capacity func() (read, write float64)
	// Disk is the size of the bodies of the embedded store, and its limit.
	Disk func() (bytes, limit int64)
	// Ready is whether each check of the readiness passes, by its name.
	Ready func() map[string]bool
	// Buffers is how many bytes are buffered for requests and responses, and how many may be.
	Buffers func() (bytes, limit int64)
	// Connections is how many connections visitors have, and how many were closed since the start: to make room for others, and
	// at once.
	Connections func() (open int, reclaimed, refused int64)
	// HTTP3 is how many connections of HTTP/3 visitors have, and how many were refused, and requests were received, since the start.
	HTTP3 func() (open int, refused, requests int64)
	// Downstream is whether deliveries to each downstream cache fail, by its name.
	Downstream func() map[string]bool
	// Dropped is how many lines were dropped since the start, by log.
	Dropped func() map[string]int64
}

// An Origin is the state of an origin.
type Origin struct {
	Name    string
	Open    bool // the circuit breaker is open
	Waiting int  // renders that wait for their turn
	// Addresses are its servers, of which at most maxAddresses have series.
	Addresses []Address
}

// An Address is a server of an origin.
type Address struct {
	URL                 string // of the configuration
	Up                  bool   // requests prefer it
	Open                int64  // requests whose responses have not ended
	Requests, Ejections int64  // since the origin began
}

const maxAddresses = 16

// Sample sets the sources of the gauges.
func (m *Metrics) Sample(s Sources) {
	m.sources.Store(&sampler{take: func() []prometheus.Metric { return s.take(m.sampled) }})
}

// A described is a metric that is made of a sample.
type described struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func describe(kind prometheus.ValueType, name, help string, labels ...string) described {
	return described{prometheus.NewDesc(name, help, labels, nil), kind}
}

// with returns the metric with a value.
func (d described) with(value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d.desc, d.kind, value, labels...)
}

// sampled are the metrics that are made of samples.
type sampled struct {
	memoryBytes, memoryLimit, memoryEntries described
	flights, unpublished, leasesHeld        described
	pollLag, storeUp                        described
	breakerOpen, queueLength, addressUp     described
	addressOpen                             described
	addressRequests, addressEjections       described
	capacity                                described
	diskBytes, diskLimit                    described
	bufferBytes, bufferLimit                described
	connections, connectionsClosed          described
	http3Connections, http3Refused          described
	http3Requests                           described
	ready, downstreamFailing, dropped       described
}

func newSampled() sampled {
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	return sampled{
		memoryBytes:       describe(gauge, "isr_memory_bytes", "Size of the pages in memory."),
		memoryLimit:       describe(gauge, "isr_memory_limit_bytes", "Limit of isr_memory_bytes (--memory)."),
		memoryEntries:     describe(gauge, "isr_memory_entries", "Pages in memory."),
		flights:           describe(gauge, "isr_flights", "Searches for pages in progress, each shared by all requests for its page."),
		unpublished:       describe(gauge, "isr_unpublished_pages", "Pages in memory that could not be stored."),
		leasesHeld:        describe(gauge, "isr_leases_held", "Leases that this process holds."),
		pollLag:           describe(gauge, "isr_poll_lag_seconds", "Time since the log of changes by other processes was read."),
		storeUp:           describe(gauge, "isr_store_up", "Whether a store answers: 0 while its circuit breaker is open.", "store"),
		breakerOpen:       describe(gauge, "isr_origin_breaker_open", "Whether the circuit breaker of an origin is open: 1 while nothing is rendered.", "origin"),
		queueLength:       describe(gauge, "isr_render_queue_length", "Renders that wait for their turn at an origin.", "origin"),
		addressUp:         describe(gauge, "isr_origin_address_up", "Whether requests prefer a server of an origin: 0 after failed health checks, and while it is ejected.", "origin", "address"),
		addressOpen:       describe(gauge, "isr_origin_address_open_requests", "Requests to a server of an origin whose responses have not ended.", "origin", "address"),
		addressRequests:   describe(counter, "isr_origin_address_requests_total", "Requests that were sent to a server of an origin.", "origin", "address"),
		addressEjections:  describe(counter, "isr_origin_address_ejections_total", "Times that a server of an origin was ejected because it failed.", "origin", "address"),
		capacity:          describe(counter, "isr_store_capacity_units_total", "Capacity units of DynamoDB that this process has consumed; of an embedded store, what DynamoDB would consume.", "kind"),
		diskBytes:         describe(gauge, "isr_disk_bytes", "Size of the bodies in the embedded store."),
		diskLimit:         describe(gauge, "isr_disk_limit_bytes", "Limit of isr_disk_bytes (--disk)."),
		bufferBytes:       describe(gauge, "isr_buffer_bytes", "Bytes that are reserved for buffers of requests and responses."),
		bufferLimit:       describe(gauge, "isr_buffer_limit_bytes", "Limit of isr_buffer_bytes (--buffers)."),
		connections:       describe(gauge, "isr_connections", "Open connections of visitors."),
		http3Connections:  describe(gauge, "isr_http3_connections", "Open connections of visitors by HTTP/3."),
		http3Refused:      describe(counter, "isr_http3_connections_refused_total", "Connections of visitors by HTTP/3 that were refused because there were too many; these visitors use HTTP/2."),
		http3Requests:     describe(counter, "isr_http3_requests_total", "Requests of visitors by HTTP/3."),
		connectionsClosed: describe(counter, "isr_connections_closed_total", "Connections of visitors that were closed because there were too many, by cause: reclaimed (it waited for a request, and made room for another), or refused (a new one).", "cause"),
		ready:             describe(gauge, "isr_ready", "Whether a check of the readiness passes; serving is 0 while the server starts and drains, others mean degraded.", "check"),
		downstreamFailing: describe(gauge, "isr_downstream_failing", "Whether purges are not delivered to a downstream cache: 1 while they fail.", "destination"),
		dropped:           describe(counter, "isr_log_dropped_total", "Lines that were dropped because a log could not be written fast enough.", "log"),
	}
}

// all returns the descriptions.
func (s sampled) all() []described {
	return []described{
		s.memoryBytes, s.memoryLimit, s.memoryEntries, s.flights, s.unpublished, s.leasesHeld, s.pollLag, s.storeUp,
		s.breakerOpen, s.queueLength, s.addressUp, s.addressOpen, s.addressRequests, s.addressEjections, s.capacity, s.diskBytes, s.diskLimit, s.bufferBytes, s.bufferLimit, s.connections, s.connectionsClosed,
		s.http3Connections, s.http3Refused, s.http3Requests, s.ready, s.downstreamFailing, s.dropped,
	}
}

// A collector has the metrics of the sources.
type collector struct{ m *Metrics }

// Describe implements prometheus.Collector.
func (c collector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range c.m.sampled.all() {
		descs <- d.desc
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(metrics chan<- prometheus.Metric) {
	sampler := c.m.sources.Load()
	if sampler == nil {
		return
	}
	for _, metric := range sampler.sample() {
		metrics <- metric
	}
}

// take asks the sources.
func (s Sources) take(d sampled) (all []prometheus.Metric) {
	add := func(d described, value float64, labels ...string) { all = append(all, d.with(value, labels...)) }
	if s.Cache != nil {
		s.takeCache(d, add)
	}
	if s.Origins != nil {
		for _, o := range s.Origins() {
			add(d.breakerOpen, truth(o.Open), o.Name)
			add(d.queueLength, float64(o.Waiting), o.Name)
			for _, a := range o.Addresses[:min(len(o.Addresses), maxAddresses)] {
				add(d.addressUp, truth(a.Up), o.Name, a.URL)
				add(d.addressOpen, float64(a.Open), o.Name, a.URL)
				add(d.addressRequests, float64(a.Requests), o.Name, a.URL)
				add(d.addressEjections, float64(a.Ejections), o.Name, a.URL)
			}
		}
	}
	if s.Capacity != nil {
		read, write := s.Capacity()
		add(d.capacity, read, "read")
		add(d.capacity, write, "write")
	}
	if s.Disk != nil {
		bytes, limit := s.Disk()
		add(d.diskBytes, float64(bytes))
		add(d.diskLimit, float64(limit))
	}
	if s.Buffers != nil {
		bytes, limit := s.Buffers()
		add(d.bufferBytes, float64(bytes))
		add(d.bufferLimit, float64(limit))
	}
	if s.Connections != nil {
		open, reclaimed, refused := s.Connections()
		add(d.connections, float64(open))
		add(d.connectionsClosed, float64(reclaimed), "reclaimed")
		add(d.connectionsClosed, float64(refused), "refused")
	}
	if s.HTTP3 != nil {
		open, refused, requests := s.HTTP3()
		add(d.http3Connections, float64(open))
		add(d.http3Refused, float64(refused))
		add(d.http3Requests, float64(requests))
	}
	for _, flags := range []struct {
		source func() map[string]bool
		as     described
	}{{s.Ready, d.ready}, {s.Downstream, d.downstreamFailing}} {
		if flags.source == nil {
			continue
		}
		values := flags.source()
		for _, name := range slices.Sorted(maps.Keys(values)) {
			add(flags.as, truth(values[name]), name)
		}
	}
	if s.Dropped != nil {
		for name, lines := range s.Dropped() {
			add(d.dropped, float64(lines), name)
		}
	}
	return all
}

// takeCache adds the gauges of the cache.
func (s Sources) takeCache(d sampled, add func(described, float64, ...string)) {
	stats := s.Cache()
	add(d.memoryBytes, float64(stats.Memory.Bytes))
	add(d.memoryLimit, float64(stats.Memory.Limit))
	add(d.memoryEntries, float64(stats.Memory.Entries))
	add(d.flights, float64(stats.Flights))
	add(d.unpublished, float64(stats.Unpublished))
	add(d.leasesHeld, float64(stats.LeasesHeld))
	add(d.pollLag, max(stats.PollLag, 0).Seconds())
	for _, store := range []isr.OperationKind{isr.OperationTable, isr.OperationBodies} {
		add(d.storeUp, truth(!slices.Contains(stats.StoresDown, string(store))), string(store))
	}
}

// truth is 1 for true.
func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
