package telemetry_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/httpconn"
	"github.com/facetheory/isr/internal/telemetry"
	"github.com/facetheory/isr/internal/telemetry/accesslog"
	"github.com/facetheory/isr/internal/testbed"
)

// BenchmarkServedHit is a cache hit over a connection that is kept alive, client included. "none"
// is what the others are compared with.
func BenchmarkServedHit(b *testing.B) {
	page := strings.Repeat("<p>text</p>", 1000)
	cache := testbed.Cache(b, testbed.Table(b), isr.Config{})
	site := cache.Handler(isr.Route{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Cache-Control", "public, s-maxage=3600")
		_, _ = io.WriteString(w, page)
	}))
	log := func(format accesslog.Format, sample int) telemetry.Sink {
		l, err := accesslog.New(accesslog.Config{Output: io.Discard, Format: format, SampleHits: sample})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(l.Close)
		return l
	}
	for _, c := range []struct {
		name string
		cfg  *telemetry.RecorderConfig
	}{
		{"none", nil},
		{"recorder", &telemetry.RecorderConfig{}},
		{"ids", &telemetry.RecorderConfig{RequestIDs: telemetry.RequestIDsMisses}},
		{"ids on hits", &telemetry.RecorderConfig{RequestIDs: telemetry.RequestIDsAlways}},
		{"ids, log of one in 100", &telemetry.RecorderConfig{RequestIDs: telemetry.RequestIDsMisses, Sinks: []telemetry.Sink{log(accesslog.JSON, 100)}}},
		{"ids, text log", &telemetry.RecorderConfig{RequestIDs: telemetry.RequestIDsMisses, Sinks: []telemetry.Sink{log(accesslog.Text, 1)}}},
		{"ids, JSON log", &telemetry.RecorderConfig{RequestIDs: telemetry.RequestIDsMisses, Sinks: []telemetry.Sink{log(accesslog.JSON, 1)}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			cfg := gateway.EdgeConfig{Hosts: gateway.LoopbackHosts()}
			if c.cfg != nil {
				cfg.Observe = telemetry.NewRecorder(*c.cfg).Serve
			}
			benchmarkServed(b, gateway.Edge(cfg, site))
		})
	}
}

func benchmarkServed(b *testing.B, h http.Handler) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: h}
	go func() { _ = server.Serve(httpconn.CoalesceWrites(server, inner, 0)) }()
	defer server.Close()
	conn, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	request := fmt.Appendf(nil, "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\nAccept: text/html\r\nAccept-Language: en\r\n\r\n")
	reader := bufio.NewReaderSize(conn, 64<<10)
	exchange := func() {
		if _, err := conn.Write(request); err != nil {
			b.Fatal(err)
		}
		res, err := http.ReadResponse(reader, nil)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
			b.Fatal(res.Status, err)
		}
	}
	exchange()
	b.ReportAllocs()
	for b.Loop() {
		exchange()
	}
}
