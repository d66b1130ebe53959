package isr_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// A presentingBodies keeps presentations beside bodies, as a bucket does.
type presentingBodies struct {
	remote
	as map[string]store.Presentation
}

func presenting(bodies store.BodyStore) *presentingBodies {
	return &presentingBodies{remote{BodyStore: bodies}, make(map[string]store.Presentation)}
}

func (p *presentingBodies) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	rd, n, err := p.remote.Open(ctx, key)
	return presentedBody{rd, p.as[key]}, n, err
}

func (p *presentingBodies) Stat(ctx context.Context, key string) (store.BodyInfo, error) {
	info, err := p.BodyStore.Stat(ctx, key)
	info.Presentation = p.as[key]
	return info, err
}

type presentedBody struct {
	io.ReadCloser
	as store.Presentation
}

func (b presentedBody) Presentation() store.Presentation { return b.as }

const policy = "default-src 'self'; script-src 'nonce-abc'"

// putPresented writes a page as FaceTheory's runtime does.
func (tb *table) putPresented(bodies *presentingBodies, path string, as store.Presentation) {
	key := "isr/page-" + path[1:] + "/1.html"
	bodies.as[key] = as
	tb.putForeign(store.Key{Text: "example.com" + path}, key, `{"theirs": "`+path+`"}`)
}

var theirs404 = store.Presentation{Status: "404", ContentType: "application/problem+json", ContentSecurityPolicy: policy}

// expectPresented checks that an answer is the page that putPresented wrote, with the status and fields beside
// its body.
func expectPresented(t *testing.T, when, path string, status int, h http.Header, body string) {
	t.Helper()
	if status != http.StatusNotFound || body != `{"theirs": "`+path+`"}` || h.Get("Etag") != `"theirs"` ||
		!slices.Equal(h["Content-Type"], []string{theirs404.ContentType}) || !slices.Equal(h["Content-Security-Policy"], []string{policy}) {
		t.Errorf("%s, %s: %d %q, %v", when, path, status, body, h)
	}
}

// A page of FaceTheory's runtime has the status, type and policy that stand beside its body, however it
// is found, and whatever a request asks for.
func TestForeignPageIsPresented(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		bodies := presenting(tb.bodies)
		tb.putPresented(bodies, "/", theirs404)
		c := tb.nodeOn(tb.store("a"), bodies, nil)
		h := c.Handler(isr.Route{Stale: time.Hour}, site)
		if d := h.(isr.Explainer).Explain(newRequest("/"), false); d.Verdict != isr.VerdictHit || d.Status != http.StatusNotFound {
			t.Errorf("explained as %+v", d)
		}
		for _, when := range []string{"from the store", "from memory"} {
			a := get(h, "/")
			expectPresented(t, when, "/", a.Code, a.Header(), a.Body.String())
			if !strings.HasPrefix(a.status(), "isr; hit; ttl=") {
				t.Errorf("%s: %s", when, a.status())
			}
		}
		// Neither 304 nor parts are defined for a response that is no 200 (RFC 9110, sections 13.2.1 and 14.2).
		for _, header := range []string{`If-None-Match: "theirs"`, "If-None-Match: *", "Range: bytes=0-3"} {
			a := get(h, "/", header)
			expectPresented(t, header, "/", a.Code, a.Header(), a.Body.String())
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodHead, "http://example.com/", http.NoBody))
		if w.Code != http.StatusNotFound || w.Body.Len() > 0 || w.Header().Get("Content-Security-Policy") != policy {
			t.Errorf("HEAD: %d %q, %v", w.Code, w.Body, w.Header())
		}
		var hit isr.Hit
		if !isr.LookupIn(h, newRequest("/"), &hit) || hit.Status != http.StatusNotFound || !strings.HasPrefix(string(hit.Header), "HTTP/1.1 404 Not Found\r\n") ||
			!strings.Contains(string(hit.Header), "\r\nContent-Security-Policy: "+policy+"\r\n") || string(hit.Body) != `{"theirs": "/"}` {
			t.Errorf("without net/http: %d %q %q", hit.Status, hit.Header, hit.Body)
		}
		e, body, err := c.Body(t.Context(), page, "", 1<<10)
		if err != nil {
			t.Fatal(err)
		}
		expectPresented(t, "for operators", "/", e.Status, http.Header{"Etag": {e.ETag}, "Content-Type": e.Header["Content-Type"], "Content-Security-Policy": e.Header["Content-Security-Policy"]}, string(body))

		site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) { w.WriteHeader(http.StatusBadGateway) })
		time.Sleep(time.Minute + time.Second)
		for _, when := range []string{"stale", "stale while its origin fails"} {
			a := get(h, "/")
			expectPresented(t, when, "/", a.Code, a.Header(), a.Body.String())
			time.Sleep(2 * time.Second)
		}
		site.answers(cacheable)
		time.Sleep(time.Minute)
		get(h, "/")
		time.Sleep(2 * time.Second)
		expect(t, get(h, "/"), fmt.Sprintf("/ rendered %d", site.renders.Load()), "isr; hit; ttl=")
		if a := get(h, "/"); a.Header().Get("Content-Security-Policy") != "" {
			t.Errorf("the next page has the policy of the previous one: %v", a.Header())
		}
	})
}

// A 200 keeps its policy in a 304 and in parts.
func TestPolicyOfConditionsAndRanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		bodies := presenting(tb.bodies)
		tb.putPresented(bodies, "/", store.Presentation{Status: "200", ContentSecurityPolicy: policy})
		h := tb.nodeOn(tb.store("a"), bodies, nil).Handler(isr.Route{}, site)
		for header, status := range map[string]int{`If-None-Match: "theirs"`: http.StatusNotModified, "Range: bytes=0-3": http.StatusPartialContent, "Accept: */*": http.StatusOK} {
			if a := get(h, "/", header); a.Code != status || a.Header().Get("Content-Security-Policy") != policy {
				t.Errorf("%s: %d, %v; want %d", header, a.Code, a.Header(), status)
			}
		}
	})
}

// A page that has left memory has its status again when it comes back, which no outline would have.
func TestEvictedForeignPageIsPresented(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		bodies := presenting(tb.bodies)
		c := tb.nodeOn(tb.store("a"), bodies, func(cfg *isr.Config) { cfg.Memory = 64 << 10 })
		h := c.Handler(isr.Route{}, site)
		const pages = 60
		for i := range pages {
			tb.putPresented(bodies, fmt.Sprint("/", i), theirs404)
		}
		for range 3 {
			for i := range pages {
				path := fmt.Sprint("/", i)
				a := get(h, path)
				expectPresented(t, "evicted", path, a.Code, a.Header(), a.Body.String())
				synctest.Wait()
			}
		}
		if n := bodies.opened.Load(); n <= pages || site.renders.Load() > 0 {
			t.Errorf("%d bodies were read of %d pages that do not fit into memory, and %d rendered", n, pages, site.renders.Load())
		}
	})
}

// Peers are not asked for bodies of other services, which come with their status from the bucket only.
func TestPeersPresentNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		nodes := connect(tb, 2, site)
		bodies := presenting(tb.bodies)
		tb.putPresented(bodies, "/", theirs404)
		for i, n := range nodes {
			n.bucket.BodyStore = bodies
			a := get(n, "/")
			expectPresented(t, "with peers", "/", a.Code, a.Header(), a.Body.String())
			if asked := n.end.bodies.Load(); asked != 0 {
				t.Errorf("node %d has asked %d peers", i, asked)
			}
		}
	})
}

// A page that would not be served as its writer wants counts as missing, and the log and explanations say why.
func TestUnpresentablePageIsRendered(t *testing.T) {
	for reason, as := range map[string]store.Presentation{
		"a redirect":   {Status: "302"},
		"no status":    {Status: "teapot"},
		"that of a":    {Status: "503"},
		"media type":   {Status: "200", ContentType: "html"},
		"policy":       {Status: "200", ContentSecurityPolicy: "default-src\x00'self'"},
		"of at most 8": {Status: "200", ContentSecurityPolicy: strings.Repeat("x", 9<<10)},
	} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				bodies := presenting(tb.bodies)
				tb.putPresented(bodies, "/", as)
				c := tb.nodeOn(tb.store("a"), bodies, nil)
				h := c.Handler(isr.Route{}, site)
				d := h.(isr.Explainer).Explain(newRequest("/"), false)
				said := slices.ContainsFunc(d.Reasons, func(r isr.Reason) bool { return strings.Contains(r.Text, reason) })
				if d.Verdict != isr.VerdictMiss || !said {
					t.Errorf("explained as %s: %+v; want a reason with %q", d.Verdict, d.Reasons, reason)
				}
				if _, _, err := c.Body(t.Context(), page, "", 1<<10); !errors.Is(err, isr.ErrNoBody) || !strings.Contains(err.Error(), reason) {
					t.Errorf("for operators: %v", err)
				}
				expect(t, get(h, "/"), "/ rendered 1", "isr; fwd=")
				expect(t, get(h, "/"), "/ rendered 1", "isr; hit; ttl=")
				if text := tb.log.String(); !strings.Contains(text, reason) {
					t.Errorf("the log does not say %q: %s", reason, text)
				}
			})
		})
	}
}
