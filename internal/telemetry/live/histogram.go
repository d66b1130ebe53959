package live

import (
	"math/bits"
	"time"
)

// Durations are counted in buckets of a quarter of an octave: a quantile is at most 25 % too
// high. The first bucket has all below 8 µs, the last all above two minutes.
const (
	lowest  = 13 // 2^13 ns = 8 µs
	octaves = 24 // 2^37 ns = 137 s
	buckets = octaves * 4
)

// bucketOf returns the bucket of a duration.
func bucketOf(d time.Duration) int {
	if d < 1<<lowest {
		return 0
	}
	n := bits.Len64(uint64(d)) // at least lowest+1
	quarter := int(d>>(n-3)) & 3
	return min((n-1-lowest)*4+quarter, buckets-1)
}

// upper returns the upper bound of a bucket.
func upper(bucket int) time.Duration {
	octave, quarter := bucket/4, bucket%4
	return time.Duration(5+quarter) << (lowest + octave - 2)
}

// A histogram counts durations.
type histogram struct {
	counts [buckets]int64
	sum    time.Duration
	max    time.Duration
}

func (h *histogram) add(d time.Duration) {
	h.counts[bucketOf(d)]++
	h.sum += d
	h.max = max(h.max, d)
}

func (h *histogram) merge(o *histogram) {
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.sum += o.sum
	h.max = max(h.max, o.max)
}

func (h *histogram) total() (n int64) {
	for _, c := range h.counts {
		n += c
	}
	return n
}

// mean returns the mean duration; 0 if there are none.
func (h *histogram) mean() time.Duration {
	if n := h.total(); n > 0 {
		return h.sum / time.Duration(n)
	}
	return 0
}

// quantile returns the upper bound of the bucket that has the quantile, or the maximum if
// that is lower.
func (h *histogram) quantile(q float64) time.Duration {
	total := h.total()
	rank := int64(q * float64(total))
	var seen int64
	for i, n := range h.counts {
		if seen += n; seen > rank || seen == total && n > 0 {
			return min(upper(i), h.max)
		}
	}
	return 0
}

// Quantiles of durations, in milliseconds; at most 25 % too high. 0 if there are none.
type Quantiles struct {
	P50 float64 `json:"p50" doc:"Half of them took at most so long, in milliseconds."`
	P95 float64 `json:"p95" doc:"95 of 100."`
	P99 float64 `json:"p99" doc:"99 of 100."`
	Max float64 `json:"max" doc:"The longest."`
}

func (h *histogram) quantiles() Quantiles {
	return Quantiles{P50: milliseconds(h.quantile(0.5)), P95: milliseconds(h.quantile(0.95)), P99: milliseconds(h.quantile(0.99)), Max: milliseconds(h.max)}
}

// milliseconds returns a duration in milliseconds, rounded to microseconds.
func milliseconds(d time.Duration) float64 { return float64(d.Round(time.Microsecond)) / 1e6 }
