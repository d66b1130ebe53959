package isr_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/facetheory/isr"
)

// htmlPage returns HTML of about n bytes, which differs by seed.
func htmlPage(seed uint64, n int) string {
	random := rand.New(rand.NewPCG(seed, 0))
	var words []string
	for range 400 {
		word := make([]byte, 2+random.IntN(9))
		for i := range word {
			word[i] = "etaoinshrdlucmfwyp"[random.IntN(18)]
		}
		words = append(words, string(word))
	}
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "<article class=%q><h2><a href=\"/%s/%d\">", words[0], words[random.IntN(9)], random.IntN(10_000))
		for range 60 {
			b.WriteString(words[min(random.IntN(400), random.IntN(400))] + " ")
		}
		b.WriteString("</p></article>\n")
	}
	return b.String()[:n]
}

// cpuTime is the processor time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkLoad: pages that are not in memory, from a folder and an embedded table, for a
// visitor who wants no coding and for a browser.
func BenchmarkLoad(b *testing.B) {
	const pages, size = 400, 10 << 10
	site := newSite()
	site.delay = 0
	site.answers(func(w http.ResponseWriter, r *http.Request, _ int64) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Cache-Control", "public, max-age=86400")
		var n uint64
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &n)
		_, _ = w.Write([]byte(htmlPage(n, size)))
	})
	tb := newTable(b)
	warm := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
	requests := make([]*http.Request, pages)
	for i := range requests {
		requests[i] = httptest.NewRequest(http.MethodGet, fmt.Sprintf("http://example.com/%d", i), http.NoBody)
		requests[i].Header.Set("Accept-Encoding", "gzip, deflate, br, zstd")
		w := &discard{header: make(http.Header)}
		for warm.ServeHTTP(w, requests[i]); w.header["Content-Encoding"] == nil; warm.ServeHTTP(w, requests[i]) {
			clear(w.header)
		}
	}
	for name, accept := range map[string]string{"plain": "identity", "browser": "gzip, deflate, br, zstd"} {
		b.Run(name, func(b *testing.B) {
			cold := tb.node(tb.store("b"), func(cfg *isr.Config) { cfg.Memory = 1 << 20 }).Handler(isr.Route{}, site)
			for _, r := range requests {
				r.Header.Set("Accept-Encoding", accept)
			}
			w := &discard{header: make(http.Header)}
			began, n := cpuTime(), 0
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				cold.ServeHTTP(w, requests[n*7%pages])
				n++
			}
			b.ReportMetric(float64(cpuTime()-began)/float64(n), "cpu-ns/op")
		})
	}
}
