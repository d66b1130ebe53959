package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// serverMetrics are the metrics of the server around the cache.
type serverMetrics struct {
	reloads       *prometheus.CounterVec
	lastReload    prometheus.Gauge
	diskEvictions prometheus.Counter

	diskCacheReads     *prometheus.CounterVec
	diskCacheEvictions prometheus.Counter
	diskCacheBytes     prometheus.Gauge
}

func newServerMetrics(r prometheus.Registerer) serverMetrics {
	m := serverMetrics{
		reloads:       counterVec(r, "isr_config_reloads_total", "Reloads of the configuration file, without the first reading.", "result"),
		lastReload:    gauge(r, "isr_config_last_reload_success_timestamp_seconds", "When the configuration in use was read, in Unix time."),
		diskEvictions: counter(r, "isr_disk_evictions_total", "Pages that the embedded store has evicted to stay within its limit."),

		diskCacheReads:     counterVec(r, "isr_disk_cache_reads_total", "Bodies that were sought in the disk cache (--cache-dir), by result: hit, or miss (read from the bucket).", "result"),
		diskCacheEvictions: counter(r, "isr_disk_cache_evictions_total", "Files that the disk cache has removed to stay within its size."),
		diskCacheBytes:     gauge(r, "isr_disk_cache_bytes", "Size of the disk cache (--cache-size)."),
	}
	for _, result := range []string{"hit", "miss"} {
		m.diskCacheReads.WithLabelValues(result)
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
