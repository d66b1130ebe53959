package metrics_test

import (
	"net/http"
	"testing"

	"github.com/facetheory/isr"
)

// Counting a hit costs one look-up, two histograms and four counters, and no allocation.
func BenchmarkDone(b *testing.B) {
	m, _ := newMetrics(b)
	for route := range 10 {
		m.Done(exchange(http.MethodGet, "/", http.StatusOK, isr.Report{Route: "/" + string(rune('a'+route)), Hit: true}))
	}
	x := exchange(http.MethodGet, "/", http.StatusOK, isr.Report{Route: "/blog/{slug}", Hit: true})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m.Done(x)
		}
	})
}

func TestHitsAreCountedWithoutAllocation(t *testing.T) {
	m, _ := newMetrics(t)
	x := exchange(http.MethodGet, "/", http.StatusOK, isr.Report{Route: "/blog/{slug}", Hit: true})
	if n := testing.AllocsPerRun(1000, func() { m.Done(x) }); n > 0 {
		t.Errorf("a hit allocates %v times", n)
	}
	if got := value(t, m, "isr_requests_total", "cache=hit", "reason=", "route=/blog/{slug}"); got != 1001 {
		t.Errorf("%v hits are counted", got)
	}
}
