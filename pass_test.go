package isr_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/httpconn"
	"github.com/facetheory/isr/internal/telemetry"
)

// Responses that pass through are whole on connections that write in one, also those whose
// renderer writes a body that the server drops.
func TestPassedResponsesAreWhole(t *testing.T) {
	const status = "Status"
	tb := newTable(t)
	h := tb.node(tb.store("a"), nil).Handler(isr.Route{Off: true}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.Header.Get(status))
		size, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		w.Header().Set("Content-Length", strconv.Itoa(size))
		w.WriteHeader(code)
		text := strings.Repeat("x", size)
		half := size
		if r.URL.RawQuery == "halves" {
			half = size / 2
		}
		_, _ = io.WriteString(w, text[:half])
		_, _ = io.WriteString(w, text[half:])
	}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.Listener = httpconn.CoalesceWrites(s.Config, l, time.Minute)
	s.Start()
	defer s.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Minute)) // a response that is held back never comes
	in := bufio.NewReader(c)
	for _, tt := range []struct {
		method, target string
		status, want   int
	}{
		{"GET", "/10000", 200, 10000},
		{"HEAD", "/10000", 200, 0},
		{"GET", "/10000", 304, 0},
		{"GET", "/10000?halves", 200, 10000},
		{"GET", "/10000", 204, 0},
		{"GET", "/10000", 404, 10000},
		{"GET", "/0", 200, 0},
		{"GET", "/1", 200, 1},
		{"GET", "/1000000", 200, 1000000},
	} {
		fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: example.com\r\n%s: %d\r\n\r\n", tt.method, tt.target, status, tt.status)
		res, err := http.ReadResponse(in, httptest.NewRequest(tt.method, tt.target, http.NoBody))
		if err != nil {
			t.Fatalf("%v: %v", tt, err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != tt.status || len(body) != tt.want {
			t.Errorf("%v: %s with %d bytes, %v", tt, res.Status, len(body), err)
		}
	}
}

// identified returns a handler whose requests have ids.
func identified(h http.Handler) http.Handler {
	return telemetry.NewRecorder(telemetry.RecorderConfig{RequestIDs: telemetry.RequestIDsAlways}).Handler(h)
}

// An error page of the cache names the request of each visitor, also while the failure is
// remembered.
func TestErrorPageNamesRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(func(http.ResponseWriter, *http.Request, int64) { panic("broken") })
		h := identified(tb.node(tb.store("a"), nil).Handler(isr.Route{}, site))
		for _, id := range []string{"first", "second"} {
			a := get(h, "/", "X-Request-Id: "+id)
			if want := "Please try again in a moment.\nRequest ID: " + id + "\n"; a.Code < 500 || !strings.HasSuffix(a.Body.String(), want) {
				t.Errorf("got %d %q", a.Code, a.Body)
			}
			if a.Header().Get("X-Request-Id") != id {
				t.Errorf("the header is %v", a.Header())
			}
		}
		h = identified(tb.node(tb.store("b"), nil).Handler(isr.Route{TenantHeader: "X-Tenant"}, site))
		if a := get(h, "/", "X-Request-Id: third"); a.Code != http.StatusBadRequest || !strings.HasSuffix(a.Body.String(), ".\nRequest ID: third\n") {
			t.Errorf("got %d %q", a.Code, a.Body)
		}
	})
}

// An error page that a renderer makes, such as the proxy to an origin that does not answer, names
// the request of each visitor: of those who wait for the same render, and of those who come while
// the failure is remembered.
func TestRenderedErrorPageNamesRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) {
			isr.OriginUnreachable(w, errors.New("connection refused"))
			isr.WriteErrorPage(w, http.StatusBadGateway, "The site is not answering.")
		})
		h := identified(tb.node(tb.store("a"), nil).Handler(isr.Route{}, site))
		check := func(id string) {
			a := get(h, "/", "X-Request-Id: "+id)
			want := "The site is not answering.\nRequest ID: " + id + "\n"
			if a.Code != http.StatusBadGateway || a.Body.String() != want || a.Header().Get("Content-Length") != strconv.Itoa(len(want)) {
				t.Errorf("%s got %d %v %q", id, a.Code, a.Header(), a.Body)
			}
		}
		var visitors sync.WaitGroup
		for _, id := range []string{"first", "second", "third"} {
			visitors.Go(func() { check(id) })
		}
		visitors.Wait()
		check("later")
		if site.renders.Load() != 1 {
			t.Errorf("rendered %d times", site.renders.Load())
		}
	})
}

// The id of the visitor whose request rendered a page is not part of it, even if the renderer
// gets it and repeats it in the response.
func TestPageHasNoRequestID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			w.Header().Set("X-Request-Id", r.Header.Get("X-Request-Id"))
			w.Header().Set("X-Seen", r.Header.Get("X-Request-Id"))
			cacheable(w, r, n)
		})
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{Forward: []string{"X-Request-Id"}}, site)
		a := get(identified(h), "/", "X-Request-Id: first")
		if a.Header().Get("X-Seen") != "first" || a.Header().Get("X-Request-Id") != "first" {
			t.Errorf("got %v", a.Header())
		}
		if a := get(h, "/"); a.Header()["X-Request-Id"] != nil || !strings.HasPrefix(a.status(), "isr; hit") {
			t.Errorf("the stored page has %v", a.Header())
		}
		if a := get(identified(h), "/", "X-Request-Id: second"); a.Header().Get("X-Request-Id") != "second" {
			t.Errorf("a hit has %v", a.Header())
		}
	})
}

// The renderer gets the id of the request that reaches it, made or given. A fresh hit has no need
// of one, and none is made.
func TestRendererGetsRequestID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		var seen []string
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			seen = append(seen, r.Header.Get("X-Request-Id"))
			cacheable(w, r, n)
		})
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{Forward: []string{"X-Request-Id"}}, site)
		draft := http.HandlerFunc(h.(isr.DraftHandler).ServeDraft)
		for _, c := range []struct {
			name     string
			serve    http.Handler
			wait     time.Duration
			fields   []string
			rendered bool
		}{
			{"miss", h, 0, nil, true},
			{"hit", h, 0, nil, false},
			{"stale hit", h, 61 * time.Second, nil, true},
			{"request that is passed", h, 0, []string{"Authorization: Basic eDp5"}, true},
			{"draft", draft, 0, nil, true},
		} {
			time.Sleep(c.wait)
			before := len(seen)
			a := get(identified(c.serve), "/", c.fields...)
			time.Sleep(2 * time.Second) // for a render in the background
			synctest.Wait()
			switch id := a.Header().Get("X-Request-Id"); {
			case (len(seen) > before) != c.rendered:
				t.Errorf("%s: rendered %d times", c.name, len(seen)-before)
			case c.rendered && (id == "" || seen[len(seen)-1] != id):
				t.Errorf("%s: the renderer got %q, the visitor %q", c.name, seen[len(seen)-1], id)
			}
		}
		kept := telemetry.NewRecorder(telemetry.RecorderConfig{RequestIDs: telemetry.RequestIDsMisses}).Handler(h)
		r := httptest.NewRequest(http.MethodGet, "http://example.com/", http.NoBody)
		kept.ServeHTTP(httptest.NewRecorder(), r)
		if r.Header["X-Request-Id"] != nil {
			t.Errorf("a hit was given the id %v", r.Header)
		}
	})
}
