package isr_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
)

const cssHint = "103 map[Link:[</a.css>; rel=preload]]"

// linked answers with links; at /by-render each render has one to another script.
func linked(w http.ResponseWriter, r *http.Request, n int64) {
	w.Header().Set("Link", "</a.css>; rel=preload, </>; rel=canonical")
	if r.URL.Path == "/by-render" {
		w.Header().Set("Link", fmt.Sprintf("</%d.js>; rel=modulepreload", n))
	}
	w.Header().Set("Cache-Control", "s-maxage=60")
	w.Header().Set("Last-Modified", "Sat, 21 Nov 2026 10:00:00 GMT")
	if r.URL.Path == "/missing" {
		w.WriteHeader(http.StatusNotFound)
	}
	_, _ = io.WriteString(w, "a page")
}

// A hintWriter records interim responses, and when the last one came.
type hintWriter struct {
	*httptest.ResponseRecorder
	interim []string
	at      time.Time
}

func (w *hintWriter) WriteHeader(status int) {
	if status >= http.StatusOK {
		w.ResponseRecorder.WriteHeader(status)
		return
	}
	w.interim, w.at = append(w.interim, fmt.Sprint(status, w.Header())), time.Now()
}

// visitHinted sends a request with header fields; the response has one that is set before.
func visitHinted(h http.Handler, method, path string, header ...string) *hintWriter {
	r := httptest.NewRequest(method, "http://example.com"+path, http.NoBody)
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Protocol" {
			r.Proto = value
			r.ProtoMajor, r.ProtoMinor, _ = http.ParseHTTPVersion(value)
			continue
		}
		r.Header.Add(name, value)
	}
	w := &hintWriter{ResponseRecorder: httptest.NewRecorder()}
	w.Header().Set("X-Before", "kept")
	h.ServeHTTP(w, r)
	return w
}

// RFC 8297, and RFC 9110, section 15.2: which requests get the links of a page early.
func TestRFC8297EarlyHints(t *testing.T) {
	hints := isr.Route{EarlyHints: true}
	tests := []struct {
		name   string
		route  isr.Route
		method string
		path   string
		header []string
		want   []string
	}{
		{name: "GET", route: hints, want: []string{cssHint}},
		{name: "HTTP/2", route: hints, header: []string{"Protocol: HTTP/2.0"}, want: []string{cssHint}},
		{name: "a navigation", route: hints, header: []string{"Sec-Fetch-Mode: navigate"}, want: []string{cssHint}},
		{name: "a route without"},
		{name: "HTTP/1.0", route: hints, header: []string{"Protocol: HTTP/1.0"}},
		{name: "HEAD", route: hints, method: http.MethodHead},
		{name: "a page that is missing", route: hints, path: "/missing"},
		{name: "a request by a script", route: hints, header: []string{"Sec-Fetch-Mode: cors"}},
		{name: "a subresource", route: hints, header: []string{"Sec-Fetch-Mode: no-cors"}},
		{name: "an entity tag", route: hints, header: []string{`If-None-Match: "other"`}},
		{name: "a date", route: hints, header: []string{"If-Modified-Since: Sat, 21 Nov 2025 10:00:00 GMT"}},
		{name: "a range", route: hints, header: []string{"Range: bytes=0-1"}},
		{name: "a route that removes Link", route: isr.Route{EarlyHints: true, RemoveHeader: []string{"link"}}},
		{
			name:  "a route that sets Link",
			route: isr.Route{EarlyHints: true, SetHeader: http.Header{"link": {"<https://cdn.example>; rel=preconnect"}}},
			want:  []string{"103 map[Link:[<https://cdn.example>; rel=preconnect]]"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				site.answers(linked)
				h := tb.node(tb.store("a"), nil).Handler(tt.route, site)
				method, path := tt.method, tt.path
				if method == "" {
					method = http.MethodGet
				}
				if path == "" {
					path = "/"
				}
				get(tb.node(tb.store("b"), nil).Handler(isr.Route{}, site), path) // not shown early
				for _, which := range []string{"read from the store", "in memory"} {
					w := visitHinted(h, method, path, tt.header...)
					if !slices.Equal(w.interim, tt.want) {
						t.Errorf("%s: got %q, want %q", which, w.interim, tt.want)
					}
					if w.Header().Get("X-Before") != "kept" || w.Header().Get("Cache-Status") == "" {
						t.Errorf("%s: the response has the header %v", which, w.Header())
					}
				}
				time.Sleep(70 * time.Second)
				if w := visitHinted(h, method, path, tt.header...); !slices.Equal(w.interim, tt.want) {
					t.Errorf("rendered again: got %q, want %q", w.interim, tt.want)
				}
			})
		})
	}
}

// A visitor who waits for a page gets the links of the generation before at once, and no other
// hints; but none of a page that was purged hard.
func TestEarlyHintsWhileWaiting(t *testing.T) {
	tests := []struct {
		name   string
		policy isr.Policy
		hard   bool
		want   string
		after  time.Duration
	}{
		{name: "stale", policy: isr.Wait, want: "</1.js>"},
		{name: "purged hard", policy: isr.Wait, hard: true, want: "</2.js>", after: time.Second},
		{name: "purged hard, serve-stale", hard: true, want: "</2.js>", after: time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				site.answers(linked)
				p := tb.peer("a", isr.Route{EarlyHints: true, Policy: tt.policy, Stale: time.Hour}, site, nil)
				get(p, "/by-render", "Sec-Fetch-Mode: cors")
				time.Sleep(time.Second)
				p.purge(t, tt.hard, isr.PurgeSite()) // by a mark: the page stays in memory
				began := time.Now()
				w := visitHinted(p, http.MethodGet, "/by-render")
				if want := "103 map[Link:[" + tt.want + "; rel=modulepreload]]"; len(w.interim) != 1 || w.interim[0] != want {
					t.Fatalf("got %q, want %q", w.interim, want)
				}
				if took := w.at.Sub(began); took.Truncate(time.Second) != tt.after {
					t.Errorf("the hints came after %s, want %s", took, tt.after)
				}
				if link := w.Header().Get("Link"); !strings.HasPrefix(link, "</2.js>") || w.Code != http.StatusOK {
					t.Errorf("got %d with the link %q", w.Code, link)
				}
			})
		})
	}
}

// The same under the default policy, for a page beyond its windows.
func TestEarlyHintsOfAnExpiredPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(linked)
		p := tb.peer("a", isr.Route{EarlyHints: true, Stale: -1}, site, nil)
		get(p, "/by-render", "Sec-Fetch-Mode: cors")
		time.Sleep(2 * time.Minute)
		began := time.Now()
		w := visitHinted(p, http.MethodGet, "/by-render")
		if want := "103 map[Link:[</1.js>; rel=modulepreload]]"; len(w.interim) != 1 || w.interim[0] != want || w.at.Sub(began) >= time.Second {
			t.Errorf("got %q after %s, want %q at once", w.interim, w.at.Sub(began), want)
		}
	})
}

// A request that a page does not match gets none of its links (RFC 9111, section 4.1).
func TestEarlyHintsOfAnotherRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			w.Header().Set("Vary", "Accept-Language")
			linked(w, r, n)
		})
		get(tb.peer("a", isr.Route{VaryAuto: true}, site, nil), "/")
		p := tb.peer("b", isr.Route{EarlyHints: true, Policy: isr.Wait, Stale: time.Hour}, site, nil)
		if w := visitHinted(p, http.MethodGet, "/"); !slices.Equal(w.interim, []string{cssHint}) {
			t.Errorf("the request of the page: got %q", w.interim)
		}
		for _, state := range []string{"fresh", "stale"} {
			if w := visitHinted(p, http.MethodGet, "/", "Accept-Language: de"); len(w.interim) > 0 {
				t.Errorf("%s: got %q", state, w.interim)
			}
			p.purge(t, false, isr.PurgeSite())
		}
	})
}

// Hints on real connections.
func TestEarlyHintsOnTheWire(t *testing.T) {
	tb, site := newTable(t), newSite()
	site.delay = 0
	site.answers(linked)
	server := httptest.NewUnstartedServer(tb.node(tb.store("a"), nil).Handler(isr.Route{EarlyHints: true}, site))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	first := server.Client()
	second := &http.Client{Transport: first.Transport.(*http.Transport).Clone()}
	second.Transport.(*http.Transport).ForceAttemptHTTP2 = false
	second.Transport.(*http.Transport).TLSClientConfig.NextProtos = nil
	for protocol, client := range map[string]*http.Client{"HTTP/2.0": first, "HTTP/1.1": second} {
		for range 3 { // also of a miss
			var hints []string
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				hints = append(hints, fmt.Sprint(code, h))
				return nil
			}})
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			res, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if res.Proto != protocol || res.StatusCode != http.StatusOK || string(body) != "a page" || err != nil {
				t.Errorf("%s: got %s %s %q, %v", protocol, res.Proto, res.Status, body, err)
			}
			if !slices.Equal(hints, []string{cssHint}) {
				t.Errorf("%s: got the interim responses %q, want %q", protocol, hints, cssHint)
			}
		}
	}
}
