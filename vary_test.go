package isr_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// A negotiator answers in the language of the request, and says what it depends on.
type negotiator struct {
	vary    string
	renders atomic.Int64
}

func (n *negotiator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.renders.Add(1)
	w.Header().Set("Cache-Control", "s-maxage=60")
	w.Header().Set("Vary", n.vary)
	fmt.Fprintf(w, "%s %q %q", r.URL.Path, r.Header.Get("Accept-Language"), r.Header.Get("X-Device"))
}

var varyAuto = isr.Route{VaryAuto: true, Stale: -1}

// RFC 9111, section 4.1: a page is served to requests whose headers match the headers of the
// request that it was rendered for, and to no others.
func TestRFC9111Section4_1VaryAuto(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), &negotiator{vary: "Accept-Language, Accept-Encoding"}
		a := tb.peer("a", varyAuto, site, nil)
		expect(t, get(a, "/"), `/ "" ""`, "isr; fwd=miss; fwd-status=200; stored")
		expect(t, get(a, "/", "Accept-Language: de"), `/ "de" ""`, "isr; fwd=miss; fwd-status=200; stored")
		expect(t, get(a, "/", "Accept-Language: de"), `/ "de" ""`, "isr; hit")
		expect(t, get(a, "/", "Accept-Language: DE;q=1.0"), `/ "de" ""`, "isr; hit") // normalised
		expect(t, get(a, "/", "Accept-Language: en"), `/ "en" ""`, "isr; fwd=miss; fwd-status=200; stored")
		expect(t, get(a, "/"), `/ "" ""`, "isr; hit")
		if n := site.renders.Load(); n != 3 {
			t.Errorf("%d renders, want 3", n)
		}
		// The first visitor of a page has the header: the page is learned, then rendered.
		expect(t, get(a, "/b", "Accept-Language: de"), `/b "de" ""`, "isr; fwd=miss; fwd-status=200; stored")
		if n := site.renders.Load(); n != 5 {
			t.Errorf("%d renders, want 5", n)
		}
		// Another node, and one after a restart, know it from the table.
		b := tb.peer("b", varyAuto, site, nil)
		expect(t, get(b, "/", "Accept-Language: en"), `/ "en" ""`, "isr; hit")
		expect(t, get(b, "/b", "Accept-Language: de"), `/b "de" ""`, "isr; hit")
		if n := site.renders.Load(); n != 5 {
			t.Errorf("%d renders, want 5", n)
		}
		// A purge of the URL covers its variants.
		a.purge(t, true, isr.PurgeKey(store.Key{Text: "example.com/"}))
		time.Sleep(2 * time.Second)
		for _, p := range []*peer{a, b} {
			get(p, "/", "Accept-Language: en")
		}
		if n := site.renders.Load(); n != 7 {
			t.Errorf("%d renders after a purge, want 7", n)
		}
	})
}

// A variant may name more headers than the page.
func TestVaryAutoLearnsStepByStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), &negotiator{}
		h := tb.peer("a", varyAuto, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n := &negotiator{vary: "Accept-Language"}
			if r.Header.Get("Accept-Language") != "" {
				n.vary = "X-Device"
			}
			site.renders.Add(1)
			n.ServeHTTP(w, r)
		}), nil)
		for range 2 {
			for _, device := range []string{"a", "b"} {
				expect(t, get(h, "/", "Accept-Language: de", "X-Device: "+device), fmt.Sprintf("/ %q %q", "de", device), "isr; ")
			}
			expect(t, get(h, "/", "Accept-Language: de"), `/ "de" ""`, "isr; ")
			expect(t, get(h, "/", "X-Device: a"), `/ "" ""`, "isr; hit")
		}
		if n := site.renders.Load(); n != 4 {
			t.Errorf("%d renders, want 4", n)
		}
	})
}

// Visitors of one flight get the variant of their own.
func TestVaryAutoInOneFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), &negotiator{vary: "Accept-Language"}
		h := tb.peer("a", varyAuto, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			site.ServeHTTP(w, r)
		}), nil)
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				header, want := "X-Other: 1", `/ "" ""`
				if lang := []string{"", "de", "en", "fr"}[i%4]; lang != "" {
					header, want = "Accept-Language: "+lang, fmt.Sprintf(`/ %q ""`, lang)
				}
				if got := get(h, "/", header).Body.String(); got != want {
					t.Errorf("%s: %q, want %q", header, got, want)
				}
			})
		}
		wg.Wait()
		if n := site.renders.Load(); n != 4 {
			t.Errorf("%d renders, want 4", n)
		}
	})
}

// What identifies a visitor, is unbounded or is set by proxies is never learned.
func TestVaryAutoNeverLearns(t *testing.T) {
	for _, name := range []string{
		"*", "Cookie", "Authorization", "User-Agent", "Referer", "Range", "If-None-Match", "X-Forwarded-For", "X-Forwarded-Proto", "Forwarded", "Via",
		"X-Real-Ip", "X-Tenant-Id", "X-User-Id", "X-Auth-Token", "X-Api-Key", "Isr-Min-Seq", "X-Isr-Draft", "Traceparent", "Content-Type",
		"A, B, C, D, E, F, G, H, I", // nine
	} {
		synctest.Test(t, func(t *testing.T) {
			tb, site := newTable(t), &negotiator{vary: name}
			h := tb.peer("a", varyAuto, site, nil)
			for range 2 {
				if a := get(h, "/"); !strings.Contains(a.status(), "detail=vary") {
					t.Errorf("Vary: %s: %s", name, a.status())
				}
			}
			if rec := tb.record(page); rec.Entry != nil {
				t.Errorf("Vary: %s: stored as %s", name, rec.Entry.Key)
			}
		})
	}
}

// A visitor who invents values makes a bounded number of variants, and then renders nothing
// that is stored; the good variants stay, and a new one is admitted once others have expired.
func TestVaryAutoAgainstInventedValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), &negotiator{vary: "Accept-Language"}
		rt := varyAuto
		rt.MaxVariants = 4
		peers := []*peer{tb.peer("a", rt, site, nil), tb.peer("b", rt, site, nil)}
		get(peers[0], "/", "Accept-Language: de")
		for i := range 50 {
			lang := fmt.Sprintf("x-%d", i)
			a := get(peers[i%2], "/", "Accept-Language: "+lang)
			if want := fmt.Sprintf(`/ %q ""`, lang); a.Body.String() != want {
				t.Errorf("%q, want %q", a.Body, want)
			}
			if passed := strings.Contains(a.status(), "detail=variants"); passed != (i >= 3) {
				t.Errorf("request %d: %s", i, a.status())
			}
		}
		expect(t, get(peers[1], "/", "Accept-Language: de"), `/ "de" ""`, "isr; hit")
		variants, _, err := peers[0].store.Variants(t.Context(), store.HashedPartition(page), 100)
		if err != nil || len(variants) != 4 {
			t.Errorf("%d variants are listed, %v; want 4", len(variants), err)
		}
		time.Sleep(61 * time.Second) // the windows end
		get(peers[0], "/", "Accept-Language: de")
		expect(t, get(peers[0], "/", "Accept-Language: en"), `/ "en" ""`, "isr; fwd=miss; fwd-status=200; stored")
		expect(t, get(peers[1], "/", "Accept-Language: de"), `/ "de" ""`, "isr; hit")
	})
}

// The bound holds for values that are invented at the same time.
func TestVaryAutoBoundIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), &negotiator{vary: "Accept-Language"}
		rt := varyAuto
		rt.MaxVariants = 4
		h := tb.peer("a", rt, site, nil)
		get(h, "/")
		var wg sync.WaitGroup
		var stored atomic.Int64
		for i := range 30 {
			wg.Go(func() {
				if a := get(h, "/", fmt.Sprintf("Accept-Language: x-%d", i)); strings.Contains(a.status(), "stored") {
					stored.Add(1)
				}
			})
		}
		wg.Wait()
		if n := stored.Load(); n > 4 {
			t.Errorf("%d variants were stored, want at most 4", n)
		}
	})
}

// A page that was stored under other rules is not served to requests that it does not match.
func TestRFC9111Section4_1AfterRoutesChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), &negotiator{vary: "Accept-Language"}
		get(tb.peer("a", varyAuto, site, nil), "/")
		h := tb.peer("b", isr.Route{}, site, nil)
		expect(t, get(h, "/"), `/ "" ""`, "isr; hit")
		expect(t, get(h, "/", "Accept-Language: de"), `/ "de" ""`, "isr; fwd=bypass; fwd-status=200; detail=vary")
	})
}

// An unsafe request purges the variants that were learned.
func TestUnsafeRequestInvalidatesLearnedVariants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), &negotiator{vary: "Accept-Language"}
		a, b := tb.peer("a", varyAuto, site, nil), tb.peer("b", varyAuto, site, nil)
		get(a, "/", "Accept-Language: de")
		get(b, "/", "Accept-Language: de")
		if w := send(a, http.MethodPost, "/"); w.Code != http.StatusOK {
			t.Fatal(w.Code)
		}
		time.Sleep(2 * time.Second)
		before := site.renders.Load()
		get(b, "/", "Accept-Language: de")
		if n := site.renders.Load() - before; n != 2 {
			t.Errorf("%d renders after a POST, want 2", n)
		}
	})
}

// A variant that was learned can be regenerated by its key; one with a value that no request
// has once it is normalised cannot.
func TestRegenerateLearnedVariant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), &negotiator{vary: "Accept-Language"}
		rt := varyAuto
		rt.Name = "site"
		p := tb.peer("a", rt, site, nil)
		get(p, "/", "Accept-Language: de")
		if _, err := p.Regenerate(t.Context(), store.Key{Text: "example.com/#accept-language=de"}); err != nil {
			t.Error(err)
		}
		if n := site.renders.Load(); n != 3 {
			t.Errorf("%d renders, want 3", n)
		}
		for _, variant := range []string{"accept-language=DE", "user-agent=x", "cookie=a"} {
			if _, err := p.Regenerate(t.Context(), store.Key{Text: "example.com/#" + variant}); err == nil {
				t.Errorf("%s was regenerated", variant)
			}
		}
	})
}

// listedUntil returns when the row of the only listed variant ends; 0: it has no ttl, and
// -1: none is listed.
func (tb *table) listedUntil(t *testing.T) int64 {
	t.Helper()
	out, err := tb.db.Scan(t.Context(), &dynamodb.ScanInput{
		TableName: aws.String(tableName), FilterExpression: aws.String("begins_with(sk, :prefix)"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":prefix": &types.AttributeValueMemberS{Value: "VARIANT#"}},
	})
	if err != nil || len(out.Items) > 1 {
		t.Fatalf("%d rows, %v", len(out.Items), err)
	}
	if len(out.Items) == 0 {
		return -1
	}
	ttl, ok := out.Items[0]["ttl"].(*types.AttributeValueMemberN)
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(ttl.Value, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A variant is listed for longer than its entry is kept, however that came to be current.
func TestVariantsAreListedForLongerThanTheyAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), new(editable)
		p := tb.peer("a", isr.Route{Vary: []string{"X-Lang"}, History: 3}, site, func(cfg *isr.Config) { cfg.Retention, cfg.Poll = 10*24*time.Hour, -1 })
		k := store.Key{Text: "example.com/#x-lang=de"}
		kept := func(when string) {
			t.Helper()
			e, listed := recordOf(t, p, k).Entry, tb.listedUntil(t)
			if e.Expires.IsZero() && listed != 0 || !e.Expires.IsZero() && listed <= e.Expires.Unix() {
				t.Errorf("%s: kept until %v, listed until %d", when, e.Expires, listed)
			}
		}
		get(p, "/")
		if n := tb.listedUntil(t); n != -1 {
			t.Errorf("a page without a variant is listed until %d", n)
		}
		get(p, "/", "X-Lang: de")
		kept("after a publish")
		time.Sleep(25 * time.Hour)
		site.version.Add(1)
		get(p, "/", "X-Lang: de") // stale
		synctest.Wait()
		kept("after another")
		time.Sleep(9 * 24 * time.Hour)
		if _, err := p.Rollback(t.Context(), k, isr.PinFor(20*24*time.Hour)); err != nil {
			t.Fatal(err)
		}
		kept("after a rollback")
		for _, d := range []time.Duration{40 * 24 * time.Hour, 0} {
			if _, err := p.Pin(t.Context(), k, d); err != nil {
				t.Fatal(err)
			}
			kept(fmt.Sprintf("after a pin for %v", d))
		}
	})
}

// Requests for variants that are not stored leave nothing in the list.
func TestVariantsThatAreNotStored(t *testing.T) {
	for name, answers := range map[string]http.HandlerFunc{
		"not found": func(w http.ResponseWriter, r *http.Request) { notFound(w, r, 1) },
		"failure":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		"private":   func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Cache-Control", "private") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := newTable(t)
				p := tb.peer("a", isr.Route{Vary: []string{"X-Lang"}}, answers, nil)
				get(p, "/none", "X-Lang: de")
				synctest.Wait()
				if n := tb.listedUntil(t); n != -1 {
					t.Errorf("listed until %d", n)
				}
			})
		})
	}
}
