package gateway_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/gateway"
)

// Event streams end, whole, when a site is drained or their origin is replaced; other responses go on.
func TestEventStreamsEnd(t *testing.T) {
	finish := make(chan struct{})
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/events" {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			_, _ = io.WriteString(w, "data: 1\n\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		w.Header().Set("Cache-Control", "private")
		_, _ = io.WriteString(w, "begin\n")
		w.(http.Flusher).Flush()
		<-finish
		_, _ = io.WriteString(w, "end\n")
	}))
	defer origin.Close()
	at, err := url.Parse(origin.URL)
	if err != nil {
		t.Fatal(err)
	}
	config := func(connections int) gateway.SiteConfig {
		return gateway.SiteConfig{
			Routes:  []gateway.SiteRoute{{Pattern: "/", Origin: "site", Route: isr.Route{}}},
			Origins: map[string]gateway.Origin{"site": {URLs: []*url.URL{at}, MaxConnections: connections}},
		}
	}
	site, err := gateway.NewSite(newCache(t), config(8))
	if err != nil {
		t.Fatal(err)
	}
	defer site.Close()
	front := httptest.NewServer(site)
	defer front.Close()
	open := func(path, line string) *bufio.Reader {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, front.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = res.Body.Close() })
		body := bufio.NewReader(res.Body)
		if got, err := body.ReadString('\n'); got != line {
			t.Fatalf("%s: %q, %v", path, got, err)
		}
		return body
	}
	first := open("/events", "data: 1\n")
	if err := site.Reload(config(9)); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(first); string(rest) != "\n" || err != nil {
		t.Errorf("after its origin was replaced: %q, %v", rest, err)
	}
	second, other := open("/events", "data: 1\n"), open("/page", "begin\n")
	site.Drain()
	if rest, err := io.ReadAll(second); string(rest) != "\n" || err != nil {
		t.Errorf("after Drain: %q, %v", rest, err)
	}
	res, err := http.Get(front.URL + "/events")
	if err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(res.Body); len(rest) > 0 || err != nil {
		t.Errorf("a stream that began after Drain: %q, %v", rest, err)
	}
	_ = res.Body.Close()
	close(finish)
	if rest, err := io.ReadAll(other); string(rest) != "end\n" || err != nil {
		t.Errorf("another response: %q, %v", rest, err)
	}
}
