package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/facetheory/isr/internal/warm"
)

// serverMetrics are the metrics of the server around the cache.
type serverMetrics struct {
	reloads       *prometheus.CounterVec
	lastReload    prometheus.Gauge
	diskEvictions prometheus.Counter

	warmRuns  *prometheus.CounterVec
	warmPages *prometheus.CounterVec
	warmLast  prometheus.Gauge

	notices *prometheus.CounterVec

	diskCacheReads     *prometheus.CounterVec
	diskCacheEvictions prometheus.Counter
	diskCacheBytes     prometheus.Gauge
}

func newServerMetrics(r prometheus.Registerer) serverMetrics {
	m := serverMetrics{
		reloads:       counterVec(r, "isr_config_reloads_total", "Reloads of the configuration file, without the first reading.", "result"),
		lastReload:    gauge(r, "isr_config_last_reload_success_timestamp_seconds", "When the configuration in use was read, in Unix time."),
		diskEvictions: counter(r, "isr_disk_evictions_total", "Pages that the embedded store has evicted to stay within its limit."),

		warmRuns:  counterVec(r, "isr_warm_runs_total", "Runs of the schedule of warm by this server, by result: complete, stopped (another run goes on), or failed (it is tried again).", "result"),
		warmPages: counterVec(r, "isr_warm_pages_total", "Pages that these runs have looked at, by result: rendered, fresh, skipped (not stored, or of other hosts), or failed.", "result"),
		warmLast:  gauge(r, "isr_warm_last_complete_timestamp_seconds", "When the last complete run by this server ended, in Unix time; 0 if there was none."),

		notices: counterVec(r, "isr_notices_total", "Problems in messages to the destinations of notices by this server, by result: delivered, or failed (they are told again).", "destination", "result"),

		diskCacheReads:     counterVec(r, "isr_disk_cache_reads_total", "Bodies that were sought in the disk cache (--cache-dir), by result: hit, or miss (read from the bucket).", "result"),
		diskCacheEvictions: counter(r, "isr_disk_cache_evictions_total", "Files that the disk cache has removed to stay within its size."),
		diskCacheBytes:     gauge(r, "isr_disk_cache_bytes", "Size of the disk cache (--cache-size)."),
	}
	for _, result := range []string{"hit", "miss"} {
		m.diskCacheReads.WithLabelValues(result)
	}
	for _, result := range []string{warm.Complete, warm.Stopped, warm.Failed} {
		m.warmRuns.WithLabelValues(result)
	}
	for _, result := range []string{"rendered", "fresh", "skipped", "failed"} {
		m.warmPages.WithLabelValues(result)
	}
	for _, result := range []string{"ok", "error"} {
		m.reloads.WithLabelValues(result)
	}
	return m
}

// Configured notes that a configuration is in use since now.
func (m *Metrics) Configured() { m.server.lastReload.Set(float64(time.Now().Unix())) }

// Reloaded counts a reload of the configuration. After an error the old one stays in use.
func (m *Metrics) Reloaded(err error) {
	if err != nil {
		m.server.reloads.WithLabelValues("error").Inc()
		return
	}
	m.server.reloads.WithLabelValues("ok").Inc()
	m.Configured()
}

// Warmed counts a run of the schedule of warm.
func (m *Metrics) Warmed(r warm.Report) {
	m.server.warmRuns.WithLabelValues(r.Result()).Inc()
	for result, n := range map[string]int{"rendered": r.Rendered, "fresh": r.Fresh, "skipped": r.Skipped, "failed": r.Failed} {
		m.server.warmPages.WithLabelValues(result).Add(float64(n))
	}
	if r.Err == nil {
		m.server.warmLast.Set(float64(time.Now().Unix()))
	}
}

// Noticed counts a delivery of notices to a destination.
func (m *Metrics) Noticed(destination string, n int, err error) {
	result := "delivered"
	if err != nil {
		result = "failed"
	}
	m.server.notices.WithLabelValues(destination, result).Add(float64(n))
}

// EvictedFromDisk counts a page that the embedded store has evicted.
func (m *Metrics) EvictedFromDisk() { m.server.diskEvictions.Inc() }

// DiskCacheRead counts a body that was sought in the disk cache.
func (m *Metrics) DiskCacheRead(hit bool) {
	result := "miss"
	if hit {
		result = "hit"
	}
	m.server.diskCacheReads.WithLabelValues(result).Inc()
}

// DiskCacheEvicted counts files that the disk cache has removed to make room.
func (m *Metrics) DiskCacheEvicted(files int) { m.server.diskCacheEvictions.Add(float64(files)) }

// DiskCacheSize notes the size of the disk cache.
func (m *Metrics) DiskCacheSize(bytes int64) { m.server.diskCacheBytes.Set(float64(bytes)) }
