package isr_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// A oneTime site has links that work once: the first GET of a path gets the answer, and all
// others 410. It counts its requests.
type oneTime struct {
	header []string // of the answer
	code   int      // of the answer; 0: 200

	mu       sync.Mutex
	requests []string        // guarded by mu: methods and targets
	spent    map[string]bool // guarded by mu
}

func (o *oneTime) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.requests = append(o.requests, r.Method+" "+r.URL.RequestURI())
	for _, line := range o.header {
		name, value, _ := strings.Cut(line, ": ")
		w.Header().Add(name, value)
	}
	if r.Method == http.MethodPost {
		return
	}
	if o.spent[r.URL.Path] {
		w.WriteHeader(http.StatusGone)
		return
	}
	if r.Method == http.MethodGet {
		if o.spent == nil {
			o.spent = make(map[string]bool)
		}
		o.spent[r.URL.Path] = true
	}
	if o.code != 0 {
		w.WriteHeader(o.code)
	}
	fmt.Fprint(w, "the secret")
}

func (o *oneTime) seen() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.requests)
}

// TestOneTimeLinks: each way to open a one-time link, whose response must not be shared, uses
// it up for the visitor who opens it, by one request to the origin.
func TestOneTimeLinks(t *testing.T) {
	browser := []string{"User-Agent: Mozilla/5.0", "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "Accept-Language: de", "Accept-Encoding: gzip, br", "Sec-Fetch-Mode: navigate", "Upgrade-Insecure-Requests: 1", "X-Forwarded-For: 192.0.2.1"}
	for name, c := range map[string]struct {
		origin *oneTime
		path   string
		header []string
		before func(h http.Handler) // what comes first
		seen   []string             // by the origin; nil: GET /link
		code   int                  // what the visitor gets; 0: 200
		detail string
	}{
		"Set-Cookie":           {origin: &oneTime{header: []string{"Set-Cookie: session=1"}, code: http.StatusFound}, code: http.StatusFound, detail: "set-cookie"},
		"private":              {origin: &oneTime{header: []string{"Cache-Control: private"}}, detail: "private"},
		"no-store":             {origin: &oneTime{header: []string{"Cache-Control: no-store"}}, detail: "no-store"},
		"no freshness":         {origin: &oneTime{}, detail: "no-freshness"},
		"HEAD before GET":      {origin: &oneTime{}, before: func(h http.Handler) { h.ServeHTTP(httptest.NewRecorder(), headOf("/link")) }, seen: []string{"HEAD /link", "GET /link"}, detail: "no-freshness"},
		"tracking parameter":   {origin: &oneTime{}, path: "/link?utm_source=mail&fbclid=1", detail: "no-freshness"},
		"range":                {origin: &oneTime{}, header: []string{"Range: bytes=0-"}, detail: "no-freshness"},
		"condition":            {origin: &oneTime{header: []string{`Etag: "b"`}}, header: []string{`If-None-Match: "a"`}, detail: "no-freshness"},
		"a browser":            {origin: &oneTime{}, header: browser, detail: "no-freshness"},
		"Vary that agrees":     {origin: &oneTime{header: []string{"Vary: Cookie, Accept-Encoding, Origin", "Set-Cookie: a=b"}}, header: browser, detail: "set-cookie"},
		"cookies of analytics": {origin: &oneTime{}, header: []string{"Cookie: _ga=1; _gid=2"}, detail: "no-freshness"},
		"POST elsewhere": {origin: &oneTime{}, before: func(h http.Handler) {
			r := newRequest("/form")
			r.Method = http.MethodPost
			h.ServeHTTP(httptest.NewRecorder(), r)
		}, seen: []string{"POST /form", "GET /link"}, detail: "no-freshness"},
		"a receipt": {origin: &oneTime{}, header: []string{"ISR-Min-Seq: 1"}, detail: "no-freshness"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := newTable(t)
				node := tb.node(tb.store("a"), nil)
				if _, err := node.Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{isr.PurgeKey(page)}}); err != nil { // for the receipt
					t.Fatal(err)
				}
				h := node.Handler(isr.Route{}, c.origin)
				if c.before != nil {
					c.before(h)
				}
				if c.path == "" {
					c.path = "/link"
				}
				if c.seen == nil {
					c.seen = []string{"GET /link"}
				}
				if c.code == 0 {
					c.code = http.StatusOK
				}
				a := get(h, c.path, c.header...)
				if a.Code != c.code || a.Body.String() != "the secret" {
					t.Errorf("got %d %q", a.Code, a.Body)
				}
				if want := fmt.Sprintf("isr; fwd=miss; fwd-status=%d; detail=%s", c.code, c.detail); a.status() != want {
					t.Errorf("got %s, want %s", a.status(), want)
				}
				for _, line := range c.origin.header {
					name, value, _ := strings.Cut(line, ": ")
					if !slices.Contains(a.Header().Values(name), value) {
						t.Errorf("the response lacks %s: %v", line, a.Header())
					}
				}
				if _, aged := a.Header()["Age"]; aged {
					t.Errorf("it has an Age: %v", a.Header())
				}
				if seen := c.origin.seen(); !slices.Equal(seen, c.seen) {
					t.Errorf("the origin saw %q, want %q", seen, c.seen)
				}
			})
		})
	}
}

func headOf(path string) *http.Request {
	r := newRequest(path)
	r.Method = http.MethodHead
	return r
}

// TestTwoTabs: of two tabs that open a one-time link at once, one gets it.
func TestTwoTabs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, origin := newTable(t), &oneTime{header: []string{"Cache-Control: private"}}
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			origin.ServeHTTP(w, r)
		}))
		codes := make(map[int]int)
		for _, a := range crowd(2, []http.Handler{h}, "/link") {
			codes[a.Code]++
		}
		if codes[http.StatusOK] != 1 || codes[http.StatusGone] != 1 || len(origin.seen()) != 2 {
			t.Errorf("got %v, and the origin saw %q", codes, origin.seen())
		}
	})
}

// TestOwnRequestIsSent: a visitor whose request has a part that the render lacked gets the answer
// to it, and not the response of the render.
func TestOwnRequestIsSent(t *testing.T) {
	type site = []string
	for name, c := range map[string]struct {
		route  isr.Route
		origin site // header of the response
		code   int  // 0: 200
		path   string
		header []string
	}{
		"the field":                 {route: isr.Route{OwnRequest: true}},
		"Vary names a header":       {origin: site{"Vary: User-Agent"}, header: []string{"User-Agent: Mozilla/5.0"}},
		"Vary: *":                   {origin: site{"Vary: *"}},
		"Vary names a proxy's":      {origin: site{"Vary: X-Forwarded-For"}},
		"Vary: Cookie":              {origin: site{"Vary: Cookie"}, header: []string{"Cookie: _ga=1"}},
		"a cookie":                  {route: isr.Route{IgnoreCookies: []string{"*"}}, header: []string{"Cookie: session=1"}},
		"a key":                     {header: []string{"X-Api-Key: secret"}},
		"a user of a proxy's":       {header: []string{"X-Forwarded-User: alice"}},
		"a certificate":             {header: []string{"X-Forwarded-Client-Cert: Subject=\"CN=alice\""}},
		"a prefix of URLs":          {header: []string{"X-Forwarded-Prefix: /shop"}},
		"an unknown header":         {header: []string{"X-Segment: b"}},
		"a header that is repeated": {route: isr.Route{Forward: []string{"X-Trace"}}, header: []string{"X-Trace: 1", "X-Trace: 2"}},
		"Origin":                    {header: []string{"Origin: https://other.example"}},
		"a script":                  {header: []string{"X-Requested-With: XMLHttpRequest"}},
		"Last-Event-Id":             {origin: site{"Content-Type: text/event-stream"}, header: []string{"Last-Event-Id: 7"}},
		"another type":              {header: []string{"Accept: application/json, */*"}},
		"a parameter":               {route: isr.Route{IgnoreQuery: []string{"*"}}, path: "/?token=1"},
		"a status for one visitor":  {code: http.StatusForbidden},
		"a redirect to itself":      {code: http.StatusMovedPermanently, origin: site{"Location: /"}},
		"a coding":                  {origin: site{"Content-Encoding: gzip"}},
		"a range of a large body":   {route: isr.Route{MaxBody: 2}, origin: site{"Cache-Control: max-age=60", "Content-Length: 3"}, header: []string{"Range: bytes=0-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				site.answers(func(w http.ResponseWriter, r *http.Request, _ int64) {
					w.Header().Set("Cache-Control", "private")
					for _, line := range c.origin {
						name, value, _ := strings.Cut(line, ": ")
						w.Header().Set(name, value)
					}
					if c.code != 0 {
						w.WriteHeader(c.code)
					}
					if r.UserAgent() == "isr" {
						fmt.Fprint(w, "ren")
					} else {
						fmt.Fprint(w, "own")
					}
				})
				if c.path == "" {
					c.path = "/"
				}
				a := get(tb.node(tb.store("a"), nil).Handler(c.route, site), c.path, c.header...)
				if a.Body.String() != "own" || site.renders.Load() != 2 || strings.Contains(a.status(), "stored") {
					t.Errorf("got %q, %s, by %d requests", a.Body, a.status(), site.renders.Load())
				}
			})
		})
	}
}

// Headers in the key, and those that renders carry, are no parts that the render lacked.
func TestHandoverWithPartsOfTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(func(w http.ResponseWriter, r *http.Request, _ int64) {
			w.Header().Set("Cache-Control", "private")
			w.Header().Set("Vary", "X-Kind, Accept-Language")
			fmt.Fprint(w, r.Header.Get("X-Kind"), r.Header.Get("X-Trace"), r.Header.Get("Accept-Language"), r.Header.Get("Cookie"))
		})
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{
			Vary: []string{"X-Kind"}, Forward: []string{"X-Trace"},
			KeyClasses: []isr.KeyClass{{Header: "Accept-Language", Values: []string{"en", "de"}}, {Cookie: "ab", Values: []string{"a", "b"}}},
		}, site)
		a := get(h, "/", "X-Kind: k", "X-Trace: t", "Accept-Language: de-AT", "Cookie: ab=b")
		expect(t, a, "ktdeab=b", "isr; fwd=miss; fwd-status=200; detail=private")
		if n := site.renders.Load(); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
}

// TestHandoverIsForOneVisitor: however many visitors ask at once, no two of them get the same
// response, and each is served, with a cookie of their own.
func TestHandoverIsForOneVisitor(t *testing.T) {
	for _, revalidate := range []time.Duration{0, time.Second} {
		tb := newTable(t)
		var mu sync.Mutex
		n := 0
		site := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			n++
			id := n
			mu.Unlock()
			w.Header().Set("Set-Cookie", fmt.Sprint("session=", id))
			w.Header().Set("X-Session", fmt.Sprint(id))
			fmt.Fprint(w, strings.Repeat(fmt.Sprint(id, " "), 40_000/len(fmt.Sprint(id, " "))))
			_ = http.NewResponseController(w).Flush()
			fmt.Fprint(w, " end of ", id)
		})
		server := httptest.NewServer(tb.node(tb.store("a"), nil).Handler(isr.Route{Revalidate: revalidate}, site))
		t.Cleanup(server.Close)
		sessions := make(map[string]string)
		var visitors sync.WaitGroup
		for i := range 16 {
			visitors.Go(func() {
				for round := range 8 {
					who := fmt.Sprintf("visitor %d.%d", i, round)
					r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprint(server.URL, "/", round), http.NoBody)
					r.Header.Set("User-Agent", who)
					res, err := http.DefaultClient.Do(r)
					if err != nil {
						t.Error(err)
						return
					}
					body, err := io.ReadAll(res.Body)
					_ = res.Body.Close()
					session := res.Header.Get("X-Session")
					mu.Lock()
					other := sessions[session]
					sessions[session] = who
					mu.Unlock()
					if err != nil || other != "" || res.Header.Get("Set-Cookie") != "session="+session || !strings.HasSuffix(string(body), " end of "+session) || !strings.HasPrefix(string(body), session+" ") {
						t.Errorf("%s got the session %q of %q, %v, and a body of %d bytes: %v", who, session, other, res.Header, len(body), err)
					}
				}
			})
		}
		visitors.Wait()
		if len(sessions) != 16*8 {
			t.Errorf("%d sessions", len(sessions))
		}
	}
}

// TestHandoverIsStreamed: a response without an end reaches its visitor as it comes, neither
// holds the lease nor is kept, and ends when the visitor leaves.
func TestHandoverIsStreamed(t *testing.T) {
	tb := newTable(t)
	lines, ended := make(chan string), make(chan error, 1)
	written := make(chan int, 1)
	site := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		for line := range lines {
			fmt.Fprintln(w, line)
			_ = http.NewResponseController(w).Flush()
		}
		total := 0
		for {
			n, err := w.Write(make([]byte, 32<<10))
			if total += n; err != nil {
				written <- total
				<-r.Context().Done() // soon: the write may fail first
				ended <- context.Cause(r.Context())
				return
			}
		}
	})
	stores := tb.store("a")
	server := httptest.NewServer(tb.node(stores, nil).Handler(isr.Route{}, site))
	t.Cleanup(server.Close)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, http.NoBody)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body := bufio.NewReader(res.Body)
	for _, line := range []string{"one", "two"} {
		lines <- line
		if got, err := body.ReadString('\n'); got != line+"\n" {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	key := store.Key{Text: strings.TrimPrefix(server.URL, "http://") + "/"}
	for held := true; held; { // until the flight has given it up
		rec, err := stores.Read(t.Context(), store.HashedPartition(key))
		if err != nil {
			t.Fatal(err)
		}
		held = rec.Lock != nil
	}
	close(lines)
	leave()
	if err := <-ended; err == nil {
		t.Error("the render goes on without its visitor")
	}
	<-written
}

// A visitor who does not read makes the renderer wait, whatever the length of the response.
func TestHandoverKeepsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		const piece = 32 << 10
		var total atomic.Int64
		ended := make(chan struct{})
		site := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			defer close(ended)
			w.Header().Set("Cache-Control", "private")
			for range 1000 {
				if _, err := w.Write(make([]byte, piece)); err != nil {
					return
				}
				total.Add(piece)
			}
		})
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		stopped := make(chan struct{})
		v, end := view(h, request(), stopped)
		time.Sleep(2 * time.Minute) // it has no time limit
		if n := total.Load(); n > 4*piece {
			t.Errorf("%d bytes are kept for a visitor who reads none", n)
		}
		close(stopped)
		<-end
		<-ended
		if len(v.seen()) != 1000*piece || v.broken {
			t.Errorf("%d bytes, broken: %t", len(v.seen()), v.broken)
		}
	})
}

// A response that breaks breaks the visitor's connection.
func TestHandoverBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Cache-Control", "private")
			fmt.Fprint(w, "half")
			time.Sleep(time.Second)
			panic(http.ErrAbortHandler)
		}))
		v, end := view(h, request(), nil)
		<-end
		if v.seen() != "half" || !v.broken {
			t.Errorf("got %q, broken: %t", v.seen(), v.broken)
		}
	})
}

// A visitor who has left before the response begins has no claim to it: the render ends, instead of waiting
// for them to read.
func TestHandoverToNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		var ended atomic.Int32
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			defer ended.Add(1)
			time.Sleep(2 * time.Second)
			w.Header().Set("Cache-Control", "private")
			for range 4 {
				_, _ = w.Write(make([]byte, 64<<10))
			}
		}))
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		h.ServeHTTP(httptest.NewRecorder(), newRequest("/").WithContext(ctx))
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := ended.Load(); n != 1 {
			t.Errorf("%d renders have ended", n)
		}
	})
}

// A visitor who has the response already gets 304, and one with HEAD no body; the render ends.
func TestHandoverWithoutBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		node := tb.node(tb.store("a"), nil)
		h := node.Handler(isr.Route{}, site)
		get(h, "/") // so that HEAD renders it
		if _, err := node.Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{isr.PurgeKey(page)}, Hard: true}); err != nil {
			t.Fatal(err)
		}
		site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) {
			w.Header().Set("Cache-Control", "private")
			w.Header().Set("Etag", `"a"`)
			w.Header().Set("Content-Length", "4")
			fmt.Fprint(w, "mine")
		})
		head, _ := reported(h, headOf("/"))
		if head.Code != http.StatusOK || head.Body.Len() != 0 || head.Header().Get("Content-Length") != "4" || !strings.HasSuffix(head.status(), "detail=private") {
			t.Errorf("HEAD: %d %q %v", head.Code, head.Body, head.Header())
		}
		known := get(h, "/known", `If-None-Match: "a"`)
		if known.Code != http.StatusNotModified || known.Body.Len() != 0 || known.Header().Get("Etag") != `"a"` {
			t.Errorf("a known page: %d %q %v", known.Code, known.Body, known.Header())
		}
		if n := site.renders.Load(); n != 3 {
			t.Errorf("%d requests", n)
		}
	})
}

// A response whose body forbids to store it is handed over, too: one that turns out to be too large, or empty.
func TestHandoverDecidedByTheBody(t *testing.T) {
	const large = 300 << 10
	type site = []string
	for name, c := range map[string]struct {
		origin site // header of the response
		code   int  // 0: 200
		size   int  // of the body
		header []string
		route  isr.Route
		detail string
		code2  int // what the visitor gets; 0: code
		own    bool
	}{
		"too large":                          {size: large, detail: "too-large"},
		"too large, of a type":               {origin: site{"Content-Type: text/html"}, size: large, detail: "too-large"},
		"too large, of another status":       {code: http.StatusGone, size: large, detail: "too-large"},
		"too large, with rules for its text": {origin: site{"Content-Type: text/html"}, route: isr.Route{Reject: isr.Reject{Without: []string{"end"}}}, size: large, detail: "too-large"},
		"too large, a condition":             {origin: site{"Content-Type: text/html"}, size: large, header: []string{`If-None-Match: "a"`}, detail: "too-large"},
		"too large, a range":                 {size: large, header: []string{"Range: bytes=0-1"}, detail: "too-large", own: true},
		"too large, a key":                   {size: large, header: []string{"X-Api-Key: a"}, detail: "too-large", own: true},
		"too large, the field":               {size: large, route: isr.Route{OwnRequest: true}, detail: "too-large", own: true},
		"empty":                              {detail: "empty"},
		"empty, with Content-Length":         {origin: site{"Content-Length: 0"}, detail: "empty"},
		"empty, known":                       {origin: site{`Etag: "a"`}, header: []string{`If-None-Match: "a"`}, detail: "empty", code2: http.StatusNotModified},
		"empty, a cookie":                    {route: isr.Route{IgnoreCookies: []string{"*"}}, header: []string{"Cookie: session=1"}, detail: "empty", own: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				site.delay = 0
				site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) {
					w.Header().Set("Cache-Control", "public, max-age=60")
					for _, line := range c.origin {
						name, value, _ := strings.Cut(line, ": ")
						w.Header().Set(name, value)
					}
					w.Header().Set("X-Request", fmt.Sprint(site.renders.Load()))
					if c.code != 0 {
						w.WriteHeader(c.code)
					}
					for left := c.size; left > 0; left -= 30 << 10 {
						if _, err := io.WriteString(w, strings.Repeat("x", 30<<10)); err != nil {
							return
						}
					}
				})
				c.route.MaxBody = 128 << 10
				a := get(tb.node(tb.store("a"), nil).Handler(c.route, site), "/", c.header...)
				synctest.Wait()
				requests, code := int64(1), max(c.code, http.StatusOK)
				if c.own {
					requests = 2
				}
				if c.code2 != 0 {
					code = c.code2
				}
				if n := site.renders.Load(); n != requests || a.Header().Get("X-Request") != fmt.Sprint(n) || a.Code != code || a.Body.Len() != c.size {
					t.Errorf("got %d, %d bytes, of request %s of %d", a.Code, a.Body.Len(), a.Header().Get("X-Request"), n)
				}
				if want := fmt.Sprintf("isr; fwd=miss; fwd-status=%d; detail=%s", code, c.detail); a.status() != want {
					t.Errorf("got %s, want %s", a.status(), want)
				}
			})
		})
	}
}

// What a visitor gets of a body that turns out to be too large is not kept: its renderer waits for them. Visitors who
// wait send their own requests.
func TestHandoverOfALargeBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const piece, pieces, limit = 32 << 10, 64, 128 << 10
		tb := newTable(t)
		var total, requests atomic.Int64
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{MaxBody: limit}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			first := requests.Add(1) == 1
			w.Header().Set("Cache-Control", "public, max-age=60")
			time.Sleep(time.Second)
			for range pieces {
				if _, err := w.Write(make([]byte, piece)); err != nil {
					t.Error(err)
					return
				}
				if first {
					total.Add(piece)
				}
			}
		}))
		stopped := make(chan struct{})
		slow, end := view(h, request(), stopped)
		synctest.Wait()
		other, otherEnd := view(h, request(), nil)
		<-otherEnd
		if len(other.seen()) != piece*pieces || requests.Load() != 2 {
			t.Errorf("a visitor who waits: %d bytes, by %d requests", len(other.seen()), requests.Load())
		}
		if n := total.Load(); n > limit+4*piece {
			t.Errorf("%d bytes are kept for a visitor who reads none", n)
		}
		close(stopped)
		<-end
		if len(slow.seen()) != piece*pieces || slow.broken || requests.Load() != 2 {
			t.Errorf("%d bytes, broken: %t, by %d requests", len(slow.seen()), slow.broken, requests.Load())
		}
	})
}

// An empty response instead of a page is a failure of the render, and handed to nobody.
func TestBlankPageIsNotHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{Stale: time.Hour, Policy: isr.Wait}, site)
		first := get(h, "/")
		time.Sleep(2 * time.Minute)
		site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) {
			w.Header().Set("Cache-Control", "public, max-age=60")
		})
		if a := get(h, "/"); a.Body.String() != first.Body.String() || !strings.HasPrefix(a.status(), "isr; hit; ") || !strings.HasSuffix(a.status(), "; detail=render-failed") {
			t.Errorf("got %q, %s", a.Body, a.status())
		}
	})
}

// A visitor who reads the page as a stream gets the rest of a body that turns out to be too large once.
func TestStreamKeepsItsVisitor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const piece, pieces = 32 << 10, 16
		tb, site := newTable(t), newSite()
		site.delay = 0
		site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) {
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Cache-Control", "public, max-age=60")
			for range pieces {
				_, _ = w.Write(make([]byte, piece))
				time.Sleep(time.Second)
			}
		})
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{MaxBody: 4 * piece}, site)
		var ends []<-chan struct{}
		var all []*viewer
		for range 3 {
			v, end := view(h, request(), nil)
			ends, all = append(ends, end), append(all, v)
		}
		for i, end := range ends {
			<-end
			if len(all[i].seen()) != piece*pieces || all[i].broken {
				t.Errorf("visitor %d: %d bytes, broken: %t", i, len(all[i].seen()), all[i].broken)
			}
		}
		if n := site.renders.Load(); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
}

// Trailers follow the body.
func TestHandoverHasTrailers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Cache-Control", "private")
			w.Header().Set("Trailer", "X-Sum")
			fmt.Fprint(w, "body")
			w.Header().Set("X-Sum", "7")
			w.Header().Set(http.TrailerPrefix+"X-More", "8")
		}))
		a := get(h, "/")
		if trailer := a.Result().Trailer; trailer.Get("X-Sum") != "7" || trailer.Get("X-More") != "8" {
			t.Errorf("got %v", trailer)
		}
	})
}

// While the store does not answer, a one-time link works, too.
func TestHandoverWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, origin := newTable(t), &oneTime{header: []string{"Cache-Control: private"}}
		meta := &downStore{MetaStore: tb.store("a")}
		h := tb.node(meta, nil).Handler(isr.Route{}, origin)
		synctest.Wait()
		meta.down.Store(true)
		defer meta.down.Store(false)
		head, _ := reported(h, headOf("/link"))
		if !strings.HasSuffix(head.status(), "detail=head") {
			t.Errorf("HEAD: %s", head.status())
		}
		if a := get(h, "/link"); a.Body.String() != "the secret" {
			t.Errorf("got %d %q, %s; the origin saw %q", a.Code, a.Body, a.status(), origin.seen())
		}
		if seen := origin.seen(); !slices.Equal(seen, []string{"HEAD /link", "GET /link"}) {
			t.Errorf("the origin saw %q", seen)
		}
	})
}

// A renderer with one place for requests that pass through.
type bounded struct {
	oneTime
	taken, left atomic.Int64
}

func (b *bounded) Admit(*http.Request) (leave func(), ok bool) {
	if b.taken.Load() > b.left.Load() {
		return nil, false
	}
	b.taken.Add(1)
	return func() { b.left.Add(1) }, true
}

// A visitor who gets the response of a render counts among those who pass through, and if there is no place
// for them, sends their own request.
func TestHandoverIsAdmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, origin := newTable(t), &bounded{oneTime: oneTime{header: []string{"Cache-Control: private"}}}
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, origin)
		if a := get(h, "/a"); a.Body.String() != "the secret" || origin.taken.Load() != 1 || origin.left.Load() != 1 {
			t.Errorf("got %q; %d admitted, %d left", a.Body, origin.taken.Load(), origin.left.Load())
		}
		origin.taken.Add(1) // another visitor has the place
		get(h, "/b")
		if seen := origin.seen(); !slices.Equal(seen, []string{"GET /a", "GET /b", "GET /b"}) || origin.left.Load() != 1 {
			t.Errorf("the origin saw %q; %d left", seen, origin.left.Load())
		}
	})
}

// A page whose response to HEAD says that it may be stored is rendered behind that.
func TestHeadOfAStorablePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		head, _ := reported(h, headOf("/"))
		if head.status() != "isr; fwd=miss; fwd-status=200; detail=head" {
			t.Errorf("HEAD: %d, %s", head.Code, head.status())
		}
		time.Sleep(2 * site.delay)
		synctest.Wait()
		if a := get(h, "/"); !strings.HasPrefix(a.status(), "isr; hit; ttl=") {
			t.Errorf("GET: %d %q, %s", a.Code, a.Body, a.status())
		}
	})
}

// A GET that joins the fill of a HEAD request gets its page.
func TestGetJoinsHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		h := tb.node(&slowStore{tb.store("a")}, nil).Handler(isr.Route{}, site)
		var visitors sync.WaitGroup
		var head, page answer
		visitors.Go(func() { head, _ = reported(h, headOf("/")) })
		synctest.Wait()
		visitors.Go(func() { page = get(h, "/") })
		visitors.Wait()
		if !strings.HasSuffix(head.status(), "detail=head") {
			t.Errorf("HEAD: %s", head.status())
		}
		if !strings.Contains(page.status(), "stored") {
			t.Errorf("GET: %d %s", page.Code, page.status())
		}
	})
}

// own is a header that has each visitor's own request sent: only by what is learned does the origin
// see fewer than two.
const own = "X-Segment: b"

func refusing(w http.ResponseWriter, _ *http.Request, _ int64) {
	w.Header().Set("Cache-Control", "private")
	fmt.Fprint(w, "mine")
}

// TestUncacheableSite: 100 pages that must not be shared cost the origin at most 110 requests,
// whether the visitors get the responses of the renders or not.
func TestUncacheableSite(t *testing.T) {
	for name, header := range map[string][]string{"ordinary visitors": nil, "visitors with a header of their own": {own}} {
		for _, path := range []string{"/link/%d", "/link/%d/more", "/%d", "/search?q=%d"} {
			t.Run(name+path, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tb, site := newTable(t), newSite()
					site.delay = 0
					site.answers(refusing)
					h := tb.node(tb.store("a"), nil).Handler(isr.Route{Query: []string{"q"}}, site)
					for i := range 100 {
						if a := get(h, fmt.Sprintf(path, i), header...); a.Body.String() != "mine" || strings.Contains(a.status(), "hit") {
							t.Errorf("got %q, %s", a.Body, a.status())
						}
					}
					if n := site.renders.Load(); n > 110 {
						t.Errorf("%d requests for 100 pages", n)
					}
				})
			})
		}
	}
}

// learned returns a node of which the section /link/ is learned.
func learned(t *testing.T) (*isr.Cache, http.Handler, *site) {
	t.Helper()
	tb, site := newTable(t), newSite()
	tb.poll = rarely
	site.delay = 0
	site.answers(refusing)
	node := tb.node(tb.store("a"), nil)
	h := node.Handler(isr.Route{Label: "site"}, site)
	for i := range 4 {
		get(h, fmt.Sprint("/link/", i), own)
	}
	a := get(h, "/link/learned", own)
	expect(t, a, "mine", "isr; fwd=miss; fwd-status=200; detail=learned")
	if n := site.renders.Load(); n != 9 {
		t.Errorf("%d requests for 5 pages", n)
	}
	all := node.Learned()
	if len(all) != 1 || all[0].Section != "example.com/link/" || all[0].Reason != "private" || all[0].Route != "site" {
		t.Errorf("learned: %+v", all)
	}
	if text := tb.log.String(); strings.Count(text, "section=example.com/link/") != 1 || !strings.Contains(text, "s-maxage=60") {
		t.Errorf("the log does not say how to mend it: %s", text)
	}
	return node, h, site
}

// TestLearnedSectionEnds: a section that is learned is rendered again once something says that its
// pages may be cacheable.
func TestLearnedSectionEnds(t *testing.T) {
	for name, mend := range map[string]func(*testing.T, *isr.Cache, http.Handler){
		"a visitor's response": func(_ *testing.T, _ *isr.Cache, h http.Handler) { get(h, "/link/shared") },
		"a render is tried": func(_ *testing.T, _ *isr.Cache, h http.Handler) {
			time.Sleep(10 * time.Second)
			get(h, "/link/tried", own)
		},
		"each 64th request": func(_ *testing.T, _ *isr.Cache, h http.Handler) {
			for i := range 63 {
				get(h, fmt.Sprint("/link/more", i), own)
			}
		},
		"a purge": func(t *testing.T, c *isr.Cache, _ http.Handler) {
			if _, err := c.Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{isr.PurgeKey(page)}}); err != nil {
				t.Error(err)
			}
		},
		"time": func(*testing.T, *isr.Cache, http.Handler) { time.Sleep(11 * time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, h, site := learned(t)
				site.answers(cacheable)
				mend(t, c, h)
				if all := c.Learned(); len(all) != 0 {
					t.Errorf("still learned: %+v", all)
				}
				if a := get(h, "/link/new", own); !strings.Contains(a.status(), "stored") {
					t.Errorf("got %s", a.status())
				}
			})
		})
	}
	t.Run("changed routes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, _, site := learned(t)
			if _, err := c.Bind([]isr.Binding{{Route: isr.Route{}, Renderer: site}}, func(store.Key) int { return 0 }); err != nil {
				t.Fatal(err)
			}
			if all := c.Learned(); len(all) != 0 {
				t.Errorf("still learned: %+v", all)
			}
		})
	})
}

// TestStrangersDoNotTurnTheCacheOff: requests for pages that are not cacheable, or do not exist, do
// not keep good pages of their section from being stored.
func TestStrangersDoNotTurnTheCacheOff(t *testing.T) {
	bad := func(code int) func(http.ResponseWriter, *http.Request, int64) {
		return func(w http.ResponseWriter, r *http.Request, n int64) {
			if strings.HasPrefix(r.URL.Path, "/blog/good") {
				cacheable(w, r, n)
				return
			}
			w.Header().Set("Cache-Control", "no-store")
			w.WriteHeader(code)
		}
	}
	for name, c := range map[string]struct {
		code int
		good bool // a good page was rendered lately
	}{
		"invented pages":                      {code: http.StatusNotFound},
		"uncacheable pages beside good ones":  {code: http.StatusOK, good: true},
		"forbidden pages beside good ones":    {code: http.StatusForbidden, good: true},
		"invented pages of a site with pages": {code: http.StatusGone, good: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				site.delay = 0
				site.answers(bad(c.code))
				node := tb.node(tb.store("a"), nil)
				h := node.Handler(isr.Route{}, site)
				if c.good {
					get(h, "/blog/good/old")
				}
				for i := range 200 {
					get(h, fmt.Sprint("/blog/bad", i), own)
				}
				if a := get(h, "/blog/good/new"); !strings.Contains(a.status(), "stored") {
					t.Errorf("a good page got %s; learned: %+v", a.status(), node.Learned())
				}
			})
		})
	}
	t.Run("learned before", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tb, site := newTable(t), newSite()
			site.delay = 0
			site.answers(bad(http.StatusOK))
			h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
			flood := func(from int) {
				for i := range 20 {
					get(h, fmt.Sprint("/blog/bad", from+i), own)
				}
			}
			flood(0)
			get(h, "/blog/good/new") // passes through, and tells that the section has good pages
			flood(20)
			if a := get(h, "/blog/good/new"); !strings.Contains(a.status(), "stored") {
				t.Errorf("got %s", a.status())
			}
			flood(40)
			if a := get(h, "/blog/good/new"); !strings.Contains(a.status(), "hit") {
				t.Errorf("got %s", a.status())
			}
		})
	})
}

// A page that was passed through because of its section is remembered as not cacheable.
func TestLearnedPageIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, h, _ := learned(t)
		get(h, "/link/a")
		expect(t, get(h, "/link/a"), "mine", "isr; fwd=bypass; fwd-status=200; detail=private")
	})
}

// A visitor who asks for a part of a page, or has it already, does not make others pass through.
func TestPartsSayNothingOfThePage(t *testing.T) {
	for _, field := range []string{"Range: bytes=0-1", "Range: bytes=9-", `If-None-Match: "a"`, "If-Unmodified-Since: Fri, 31 Dec 1999 00:00:00 GMT"} {
		synctest.Test(t, func(t *testing.T) {
			_, h, site := learned(t)
			page := func(w http.ResponseWriter, r *http.Request, n int64) {
				w.Header().Set("Etag", `"a"`)
				w.Header().Set("Cache-Control", "max-age=60")
				http.ServeContent(w, r, "a.txt", time.Now(), strings.NewReader("page"))
			}
			site.answers(page)
			if a := get(h, "/link/a", field); a.Code < 206 || !strings.Contains(a.status(), "learned") {
				t.Errorf("%s: %d %s", field, a.Code, a.status())
			}
			get(h, "/link/a")
			if a := get(h, "/link/a"); !strings.Contains(a.status(), "stored") {
				t.Errorf("%s: the page is not rendered again: %s", field, a.status())
			}
			site.answers(refusing)
			get(h, "/link/b", own)
			site.answers(page)
			time.Sleep(90 * time.Second)
			get(h, "/link/b", field)
			time.Sleep(time.Minute)
			if a := get(h, "/link/b"); strings.Contains(a.status(), "bypass") {
				t.Errorf("%s: the refusal is remembered for longer: %s", field, a.status())
			}
		})
	}
}

// What is known of sections is bounded, however many are requested.
func TestLearnedSectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 0
		site.answers(refusing)
		node := tb.node(tb.store("a"), nil)
		h := node.Handler(isr.Route{}, site)
		for i := range 1100 {
			for j := range 4 {
				get(h, fmt.Sprintf("/%d/%d", i, j))
			}
		}
		if n := len(node.Learned()); n == 0 || n > 1024 {
			t.Errorf("%d sections are learned", n)
		}
	})
}
