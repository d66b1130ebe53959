package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A traceCollector is an OTLP receiver that keeps spans.
type traceCollector struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*tracepb.Span // guarded by mu
}

func newTraceCollector(t *testing.T) *traceCollector {
	c := &traceCollector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var request collector.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &request); err != nil {
			t.Error(err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, resource := range request.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				c.spans = append(c.spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// A page that is rendered for a visitor is one trace, which goes on at the origin; the trace of
// the visitor ends at the server, and a page from memory has none of them.
func TestTraces(t *testing.T) {
	c := newTraceCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", c.URL)
	s := startFields(t, "access_log: {path: DIR/access.log}\ndefaults: {revalidate: 1h, forward: [traceparent]}", nil, nil)
	const foreign = "0af7651916cd43dd8448eb211c80319c"
	visitor := []string{"Traceparent", "00-" + foreign + "-b7ad6b7169203331-01", "Tracestate", "vendor=1"}
	s.expect("/", 200, stored, visitor...)
	atOrigin := s.origin.last().Header
	s.expect("/", 200, hit, visitor...)
	s.stop()
	<-s.done
	byID, byName := make(map[string]*tracepb.Span), make(map[string]*tracepb.Span)
	for _, span := range c.spans {
		byID[string(span.SpanId)], byName[span.Name] = span, span
	}
	parts := strings.Split(atOrigin.Get("Traceparent"), "-")
	if len(parts) != 4 || parts[1] == foreign || atOrigin["Tracestate"] != nil {
		t.Fatalf("the origin got %v", atOrigin)
	}
	var path []string
	for span := byName["GET"]; span != nil; span = byID[string(span.ParentSpanId)] {
		path = append(path, span.Name)
	}
	if got := strings.Join(path, " < "); got != "GET < isr.render < isr.flight < GET /" {
		t.Errorf("the request to the origin is within %s", got)
	}
	for _, name := range []string{"isr.table publish", "isr.bodies put"} {
		if byName[name] == nil {
			t.Errorf("there is no span %s", name)
		}
	}
	lines := read(t, filepath.Join(s.dir, "access.log"))
	s.contains(lines, `"trace_id":"`+parts[1]+`"`)
	if strings.Count(lines, `"trace_id":`) != 2 || strings.Contains(lines, foreign) {
		t.Errorf("the access log has %s", lines)
	}
}

// A trusted proxy's trace is continued, and its id is the request's.
func TestTrustedProxyIsContinued(t *testing.T) {
	c := newTraceCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", c.URL)
	s := startFields(t, "listen: [{address: 127.0.0.1:0, trusted_proxies: [loopback]}]", nil, nil)
	const id = "0af7651916cd43dd8448eb211c80319c"
	v := s.expect("/", 200, bypassed, "Traceparent", "00-"+id+"-b7ad6b7169203331-01", "X-Request-Id", "of-balancer", "Cookie", "a=1")
	atOrigin := s.origin.last().Header
	if !strings.Contains(atOrigin.Get("Traceparent"), id) || v.header.Get("X-Request-Id") != "of-balancer" {
		t.Errorf("the origin got %v, and the visitor %v", atOrigin, v.header)
	}
}

func TestTracesConfiguration(t *testing.T) {
	for value, want := range map[string]string{
		"OTEL_TRACES_EXPORTER=zipkin":                                          `OTEL_TRACES_EXPORTER is "zipkin"; expected otlp or none`,
		"OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=carrier": `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL is "carrier"; expected http/protobuf or grpc`,
	} {
		t.Run(value, func(t *testing.T) {
			for pair := range strings.FieldsSeq(value) {
				name, value, _ := strings.Cut(pair, "=")
				t.Setenv(name, value)
			}
			s := newFieldServer(t, nil)
			s.begin("")
			<-s.done
			if s.exit != 2 {
				t.Errorf("exit code %d", s.exit)
			}
			s.contains(s.log.String(), want)
		})
	}
}

// SIGHUP opens the access log again before it reloads the configuration.
func TestHangupReopensAccessLog(t *testing.T) {
	s := startFields(t, "access_log: {path: DIR/access.log}", nil, nil)
	path := filepath.Join(s.dir, "access.log")
	s.expect("/one", 200, "isr; ")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.until("the log is opened again", func() bool { _, err := os.Stat(path); return err == nil })
	s.expect("/two", 200, "isr; ")
	s.stop()
	<-s.done
	s.contains(read(t, path+".1"), `"/one"`)
	if text := read(t, path); !strings.Contains(text, `"/two"`) || strings.Contains(text, `"/one"`) {
		t.Errorf("the new file has %s", text)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A reload replaces the access log, and a configuration that cannot be used changes nothing.
func TestReloadAccessLog(t *testing.T) {
	s := startFields(t, "", nil, nil)
	logged := func(name, path string) {
		s.expect(path, 200, "isr; ")
		s.until(path+" has a line", func() bool {
			text, _ := os.ReadFile(filepath.Join(s.dir, name)) // of a file that may not exist yet
			return strings.Contains(string(text), path)
		})
	}
	s.reload("access_log: {path: DIR/one.log}")
	logged("one.log", "/one")
	s.reload("access_log: {path: DIR/two.log, fields: [path]}")
	logged("two.log", "/two")
	s.refuse("access_log: {path: DIR, fields: [path]}", "cannot open access log")
	s.reload("access_log: {path: DIR/two.log, fields: [path], format: text}")
	logged("two.log", "/three")
	s.reload("")
	s.expect("/four", 200, "isr; ")
	s.stop()
	<-s.done
	one, two := read(t, filepath.Join(s.dir, "one.log")), read(t, filepath.Join(s.dir, "two.log"))
	if strings.Count(one, "\n") != 1 || !strings.Contains(one, `"url.path":"/one"`) {
		t.Errorf("the first log has %s", one)
	}
	if two != `{"url.path":"/two"}`+"\n"+`path="/three"`+"\n" {
		t.Errorf("the second log has %s", two)
	}
}

// isr log follows a running server, by conditions, whether or not it has an access log.
func TestFollowLog(t *testing.T) {
	s := startFields(t, "access_log: {client_address: masked}\ndefaults: {revalidate: 1h}\nroutes: [{match: /shop/, revalidate: 1h}]", nil, nil)
	follow := func(args ...string) (output string) {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			output = s.isr(append([]string{"log"}, args...)...)
		}()
		for {
			s.expect("/shop/a", 200, "isr; ")
			s.expect("/other", 200, "isr; ")
			select {
			case <-ended:
				return output
			case <-time.After(time.Millisecond):
			}
		}
	}
	line := follow("--count", "1", "--json", "--where", "route=/shop/ status<300 cache=hit client=127.0.0.0")
	s.contains(line, `"client.address":"127.0.0.0","http.request.method":"GET"`)
	s.contains(line, `"url.path":"/shop/a"`)
	text := follow("--count", "2", "--where", "path~/o*er")
	if strings.Count(text, "\n") != 2 || !strings.Contains(text, "/other  route=/ client=127.0.0.0") || strings.Contains(text, "shop") {
		t.Errorf("got %s", text)
	}
	s.contains(s.isrFails("log", "--where", "staus>=500"), `--where: column 1 of the filter: the log has no field "staus"; expected request.HEADER`)
}
