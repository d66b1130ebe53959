package isr_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// putForeign writes a page as another service does: the reference attributes only.
func (tb *table) putForeign(k store.Key, bodyKey, body string) {
	tb.t.Helper()
	if err := tb.bodies.Put(tb.t.Context(), bodyKey, []byte(body)); err != nil {
		tb.t.Fatal(err)
	}
	tb.putRow(map[string]types.AttributeValue{
		"pk":                 &types.AttributeValueMemberS{Value: store.HashedPartition(k)},
		"sk":                 &types.AttributeValueMemberS{Value: "META"},
		"s3_key":             &types.AttributeValueMemberS{Value: bodyKey},
		"generated_at":       &types.AttributeValueMemberN{Value: strconv.FormatInt(time.Now().Unix(), 10)},
		"revalidate_seconds": &types.AttributeValueMemberN{Value: "60"},
		"etag":               &types.AttributeValueMemberS{Value: `"theirs"`},
	})
}

func (tb *table) putRow(row map[string]types.AttributeValue) {
	tb.t.Helper()
	_, err := tb.db.PutItem(tb.t.Context(), &dynamodb.PutItemInput{TableName: aws.String(tableName), Item: row})
	if err != nil {
		tb.t.Fatal(err)
	}
}

func TestForeignPageIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		tb.putForeign(page, "pages/theirs.html", "<!doctype html><p>theirs")
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{Stale: time.Hour}, site)
		a := get(h, "/")
		expect(t, a, "<!doctype html><p>theirs", "isr; hit; ttl=")
		if a.Header().Get("Etag") != `"theirs"` || a.Header().Get("Content-Type") != "text/html; charset=utf-8" {
			t.Errorf("header %v", a.Header())
		}
		time.Sleep(time.Minute + time.Second)
		expect(t, get(h, "/"), "<!doctype html><p>theirs", "isr; hit; ttl=-")
		time.Sleep(2 * time.Second)
		expect(t, get(h, "/"), "/ rendered 1", "isr; hit; ttl=")
	})
}

// Services of the reference documents may write new content under the same body key.
func TestForeignRewriteIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		tb.putForeign(page, "pages/theirs.html", "first")
		expect(t, get(h, "/"), "first", "isr; hit")
		time.Sleep(2 * time.Minute)
		if err := tb.bodies.Delete(t.Context(), "pages/theirs.html"); err != nil {
			t.Fatal(err)
		}
		tb.putForeign(page, "pages/theirs.html", "second")
		get(h, "/") // stale, and looks behind
		time.Sleep(time.Second)
		expect(t, get(h, "/"), "second", "isr; hit; ttl=")
		if n := site.renders.Load(); n != 0 {
			t.Errorf("%d renders", n)
		}
	})
}

func TestMalformedRowCountsAsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		tb.putRow(map[string]types.AttributeValue{
			"pk":           &types.AttributeValueMemberS{Value: store.HashedPartition(page)},
			"sk":           &types.AttributeValueMemberS{Value: "META"},
			"s3_key":       &types.AttributeValueMemberN{Value: "1"},
			"generated_at": &types.AttributeValueMemberBOOL{Value: true},
		})
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		expect(t, get(h, "/"), "/ rendered 1", "isr; fwd=miss; fwd-status=200; stored")
		expect(t, get(h, "/"), "/ rendered 1", "isr; hit")
	})
}

// A purge of the key covers earlier renders.
func TestPurgeRowCovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		get(tb.node(tb.store("a"), nil).Handler(isr.Route{}, site), "/")
		tb.purge(page, 1)
		h := tb.node(tb.store("b"), nil).Handler(isr.Route{}, site)
		expect(t, get(h, "/"), "/ rendered 2", "isr; fwd=miss; fwd-status=200; stored")
		expect(t, get(h, "/"), "/ rendered 2", "isr; hit")
	})
}

// Once a node has read that a page was purged, it does not serve the page from memory, nor
// instead of a failure.
func TestKnownPurgesApplyToMemory(t *testing.T) {
	for _, policy := range []isr.Policy{isr.ServeStale, isr.Wait} {
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				h := tb.node(tb.store("a"), nil).Handler(isr.Route{Policy: policy}, site)
				get(h, "/")
				time.Sleep(70 * time.Second)
				site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) { w.WriteHeader(http.StatusInternalServerError) })
				tb.purge(page, 1)
				first := get(h, "/")
				time.Sleep(2 * time.Second)
				if policy == isr.ServeStale {
					expect(t, first, "/ rendered 1", "isr; hit") // before any read of the table
					first = get(h, "/")
				}
				for _, a := range []answer{first, get(h, "/")} {
					if a.Code < http.StatusInternalServerError || strings.Contains(a.Body.String(), "rendered 1") {
						t.Errorf("got %d %q, %q: a purged page, or no failure", a.Code, a.Body, a.status())
					}
				}
			})
		})
	}
}

// marksLast sets the lifetime of purge marks in SEQ.
func (tb *table) marksLast(d time.Duration) {
	tb.putRow(map[string]types.AttributeValue{
		"pk":            &types.AttributeValueMemberS{Value: "PURGE"},
		"sk":            &types.AttributeValueMemberS{Value: "SEQ"},
		"seq":           &types.AttributeValueMemberN{Value: "0"},
		"mark_lifetime": &types.AttributeValueMemberN{Value: strconv.FormatInt(int64(d/time.Second), 10)},
	})
}

// A page that may outlive purge marks that cover it is not fresh, neither when it is read
// from the store, nor if it was in memory before the lifetime of marks was known.
func TestPagesDoNotOutliveMarks(t *testing.T) {
	yearly := func(w http.ResponseWriter, r *http.Request, n int64) {
		w.Header().Set("Cache-Control", "public, max-age=31536000, stale-while-revalidate=86400")
		fmt.Fprintf(w, "%s rendered %d", r.URL.Path, n)
	}
	const lifetime = 48 * time.Hour // less a day, in which a mark may be written
	for name, known := range map[string]bool{"known at start": true, "learnt later": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				site.answers(yearly)
				if known {
					tb.marksLast(lifetime)
				}
				slowly := func(cfg *isr.Config) { cfg.Poll = time.Minute }
				a := tb.node(tb.store("a"), slowly).Handler(isr.Route{}, site)
				get(a, "/")
				if !known {
					tb.marksLast(lifetime)
				}
				time.Sleep(23*time.Hour + 50*time.Minute)
				late := tb.node(tb.store("late"), slowly).Handler(isr.Route{}, site)
				expect(t, get(late, "/"), "/ rendered 1", "isr; hit")
				expect(t, get(a, "/"), "/ rendered 1", "isr; hit")
				time.Sleep(20 * time.Minute)
				expect(t, get(a, "/"), "/ rendered 2", "isr; fwd=stale")
				expect(t, get(late, "/"), "/ rendered 2", "isr; hit")
			})
		})
	}
}

// purge records a hard purge of a page, as the table does.
func (tb *table) purge(k store.Key, seq int64) {
	tb.t.Helper()
	number := func(n int64) types.AttributeValue {
		return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
	}
	now := time.Now().Unix()
	tb.putRow(map[string]types.AttributeValue{
		"pk": &types.AttributeValueMemberS{Value: "PURGE"}, "sk": &types.AttributeValueMemberS{Value: "SEQ"},
		"seq": number(seq), "mark_lifetime": number(40 * 24 * 3600),
	})
	tb.putRow(map[string]types.AttributeValue{
		"pk": &types.AttributeValueMemberS{Value: store.HashedPartition(k)}, "sk": &types.AttributeValueMemberS{Value: "PURGE"},
		"seq": number(seq), "hard_seq": number(seq), "at": number(now), "ttl": number(now + 40*24*3600),
	})
}

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

// A page that has left memory has its status again when it comes back, which no stub would have.
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
		"a redirect":                  {Status: "302"},
		"no status":                   {Status: "teapot"},
		"is not the status of a page": {Status: "503"},
		"media type":                  {Status: "200", ContentType: "html"},
		"policy":                      {Status: "200", ContentSecurityPolicy: "default-src\x00'self'"},
		"of at most 8":                {Status: "200", ContentSecurityPolicy: strings.Repeat("x", 9<<10)},
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
