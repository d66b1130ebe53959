package gateway

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
)

// A countingPool counts the buffers that are taken from a pool.
type countingPool struct {
	httputil.BufferPool
	taken atomic.Int64
}

func (c *countingPool) Get() []byte {
	c.taken.Add(1)
	return c.BufferPool.Get()
}

// Buffers that the server of HTTP/2 may still send are not used again.
func TestBuffersAreReusedForHTTP1Only(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "body") }))
	defer origin.Close()
	at, err := url.Parse(origin.URL)
	if err != nil {
		t.Fatal(err)
	}
	p := Renderer(Config{Origin: at}).(*proxy)
	pool := &countingPool{BufferPool: p.pooled.BufferPool}
	p.pooled.BufferPool = pool
	for proto, want := range map[string]int64{"HTTP/1.0": 1, "HTTP/1.1": 1, "HTTP/2.0": 0} {
		pool.taken.Store(0)
		r := httptest.NewRequest(http.MethodGet, "http://example.com/", http.NoBody)
		r.Proto = proto
		r.ProtoMajor, r.ProtoMinor, _ = http.ParseHTTPVersion(proto)
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		if w.Body.String() != "body" || pool.taken.Load() != want {
			t.Errorf("%s: %q by %d buffers of the pool, want %d", proto, w.Body, pool.taken.Load(), want)
		}
	}
}
