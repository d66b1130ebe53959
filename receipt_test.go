package isr_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// purgeTag purges a tag softly, and returns the header with the receipt.
func purgeTag(t *testing.T, c *isr.Cache, tag string) (receipt string) {
	t.Helper()
	r, err := c.Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{isr.PurgeTag("", tag)}})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint("ISR-Min-Seq: ", r.Seq)
}

// seldom is the configuration of a node that learns of purges after minutes by itself.
func seldom(cfg *isr.Config) { cfg.Poll = 5 * time.Minute }

// A visitor with a receipt gets what was rendered after the purge from every node, whatever
// has been read of the log by then.
func TestReceiptIsReadYourWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(tagged("Cache-Tag: news"))
		a, b := tb.peer("a", isr.Route{}, site, nil), tb.peer("b", isr.Route{}, site, seldom)
		get(a, "/")
		expect(t, get(b, "/"), "/ rendered 1", "isr; hit")
		receipt := purgeTag(t, a.Cache, "news")
		expect(t, get(b, "/"), "/ rendered 1", "isr; hit; ttl=") // it does not know yet

		expect(t, get(b, "/", receipt), "/ rendered 2", "isr; fwd=miss; fwd-status=200; stored")
		expect(t, get(b, "/", receipt), "/ rendered 2", "isr; hit")
		expect(t, get(a, "/", receipt), "/ rendered 2", "isr; hit")
		head := send(b, http.MethodHead, "/", receipt)
		if head.Code != http.StatusOK || head.Body.Len() > 0 || !strings.HasPrefix(head.status(), "isr; hit") {
			t.Errorf("HEAD: %d, %d bytes, %q", head.Code, head.Body.Len(), head.status())
		}
	})
}

// A page that nothing covers is served, however old it is.
func TestReceiptOfAnotherPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		a, b := tb.peer("a", isr.Route{}, site, nil), tb.peer("b", isr.Route{}, site, seldom)
		get(a, "/")
		get(b, "/")
		receipt := purgeTag(t, a.Cache, "other")
		for _, p := range []*peer{a, b} {
			expect(t, get(p, "/", receipt), "/ rendered 1", "isr; hit")
		}
		time.Sleep(5 * time.Minute) // beyond its freshness window, within its stale window
		expect(t, get(b, "/", receipt), "/ rendered 1", "isr; hit")
	})
}

// While another process renders the page, a visitor with a receipt waits for that, and gets
// no stale page.
func TestReceiptWaitsForTheNewGeneration(t *testing.T) {
	for _, policy := range []isr.Policy{isr.ServeStale, isr.Wait} {
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				site.answers(tagged("Cache-Tag: news"))
				site.delay = 3 * time.Second
				rt := isr.Route{Policy: policy}
				a, b := tb.peer("a", rt, site, nil), tb.peer("b", rt, site, nil)
				get(a, "/")
				get(b, "/")
				receipt := purgeTag(t, a.Cache, "news")
				go get(a, "/") // regenerates the page
				time.Sleep(time.Second)
				got := make(chan answer, 2)
				go func() { got <- get(b, "/", receipt) }()
				go func() { time.Sleep(time.Second / 2); got <- get(b, "/", receipt) }()
				for range 2 {
					expect(t, <-got, "/ rendered 2", "isr; ")
				}
				if n := site.renders.Load(); n != 2 {
					t.Errorf("%d renders, want 2", n)
				}
			})
		})
	}
}

// A flight that serves stale pages to others, and that a visitor with a receipt joins, does
// not satisfy it.
func TestReceiptJoinsAnOlderFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(tagged("Cache-Tag: news"))
		a := tb.peer("a", isr.Route{}, site, nil)
		early := make(chan answer, 1)
		go func() { early <- get(a, "/") }()
		time.Sleep(site.delay / 2)
		receipt := purgeTag(t, a.Cache, "news")
		expect(t, get(a, "/", receipt), "/ rendered 2", "isr; fwd=miss")
		expect(t, <-early, "/ rendered 1", "isr; fwd=miss")
	})
}

// Nor does a flight from before a later purge that this process knew when the visitor came: a
// receipt asks for more than other visitors get, never for less.
func TestOldReceiptJoinsAnOlderFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(tagged("Cache-Tag: news"))
		a := tb.peer("a", isr.Route{}, site, nil)
		receipt := purgeTag(t, a.Cache, "news")
		early := make(chan answer, 1)
		go func() { early <- get(a, "/") }()
		time.Sleep(site.delay / 2)
		purgeTag(t, a.Cache, "news")
		expect(t, get(a, "/", receipt), "/ rendered 2", "isr; fwd=miss")
		expect(t, <-early, "/ rendered 1", "isr; fwd=miss")
	})
}

// There is no older page instead of a failure.
func TestReceiptWhileTheOriginFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(tagged("Cache-Tag: news"))
		a := tb.peer("a", isr.Route{}, site, nil)
		get(a, "/")
		receipt := purgeTag(t, a.Cache, "news")
		site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) {
			http.Error(w, "down", http.StatusInternalServerError)
		})
		for range 3 {
			expectNoPage(t, get(a, "/", receipt))
		}
		expect(t, get(a, "/"), "/ rendered 1", "isr; hit; ttl=")
	})
}

// expectNoPage checks that a request with a receipt got a 503.
func expectNoPage(t *testing.T, a answer) {
	t.Helper()
	if a.Code != http.StatusServiceUnavailable || a.Header().Get("Retry-After") == "" || !strings.HasSuffix(a.status(), "; detail=min-seq") {
		t.Errorf("%d %q, Retry-After %q, %q; want 503, min-seq", a.Code, a.Body, a.Header().Get("Retry-After"), a.status())
	}
}

// A node that cannot read the log answers a receipt that it does not know yet with 503,
// after StoreTimeout, and one that it knows as usual.
func TestReceiptWhileTheLogIsFrozen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(tagged("Cache-Tag: news"))
		a := tb.peer("a", isr.Route{}, site, nil)
		log := &heldLog{MetaStore: tb.store("b")}
		b := tb.node(log, nil).Handler(isr.Route{}, site)
		get(a, "/")
		earlier := purgeTag(t, a.Cache, "other")
		time.Sleep(time.Second)
		get(b, "/")
		release := log.hold()
		receipt := purgeTag(t, a.Cache, "news")
		got := get(b, "/", receipt)
		if expectNoPage(t, got); got.took != isr.DefaultStoreTimeout {
			t.Errorf("answered after %v", got.took)
		}
		expect(t, get(b, "/", earlier), "/ rendered 1", "isr; hit")
		release()
		synctest.Wait()
		expect(t, get(b, "/", receipt), "/ rendered 2", "isr; fwd=miss")
	})
}

func TestInvalidReceipts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		a := tb.peer("a", isr.Route{}, site, nil)
		get(a, "/")
		receipt := purgeTag(t, a.Cache, "other")
		for _, c := range []struct {
			header []string
			text   string
		}{
			{[]string{"ISR-Min-Seq: soon"}, `decimal number (got "soon")`},
			{[]string{"ISR-Min-Seq: -1"}, "decimal number"},
			{[]string{"ISR-Min-Seq: 1.5"}, "decimal number"},
			{[]string{"ISR-Min-Seq: 99999999999999999999"}, "decimal number"},
			{[]string{"ISR-Min-Seq: "}, "decimal number"},
			{[]string{receipt, receipt}, "once (found 2 times)"},
			{[]string{"ISR-Min-Seq: 2"}, "the receipt 2 in ISR-Min-Seq is higher than the sequence of the log"},
		} {
			got := get(a, "/", c.header...)
			if got.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("a cache in front could store the refusal: %v", got.Header())
			}
			if got.Code != http.StatusBadRequest || !strings.Contains(got.Body.String(), c.text) || got.status() != "isr; detail=bad-request" {
				t.Errorf("%q: %d %q, %q; want 400 with %q", c.header, got.Code, got.Body, got.status(), c.text)
			}
		}
		expect(t, get(a, "/", "ISR-Min-Seq: 0"), "/ rendered 1", "isr; hit")
	})
}

// A receipt is neither part of the key nor of any request that the renderer gets.
func TestReceiptIsNotForwarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			if r.Header.Get("ISR-Min-Seq") != "" {
				t.Errorf("%s %s was forwarded with a receipt", r.Method, r.URL)
			}
			if r.URL.Path == "/private" {
				w.Header().Set("Cache-Control", "private")
			}
			cacheable(w, r, n)
		})
		a := tb.peer("a", isr.Route{}, site, nil)
		receipt := purgeTag(t, a.Cache, "other")
		expect(t, get(a, "/", receipt), "/ rendered 1", "isr; fwd=miss")
		expect(t, get(a, "/"), "/ rendered 1", "isr; hit")
		for range 2 {
			get(a, "/private", receipt)
		}
		get(a, "/", receipt, "Authorization: me")
		send(a, http.MethodPost, "/", receipt)
	})
}

// Visitors with invented receipts cause half as many polls as there are anyway, and all of
// them are answered in time.
func TestFloodOfInventedReceipts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		a := tb.peer("a", isr.Route{}, newSite(), nil)
		get(a, "/")
		time.Sleep(time.Second)
		polls := a.store.polls.Load()
		for i := range 1000 {
			go func() {
				got := get(a, "/", fmt.Sprint("ISR-Min-Seq: ", 1000+i))
				if got.Code != http.StatusBadRequest && got.Code != http.StatusServiceUnavailable || got.took > isr.DefaultStoreTimeout {
					t.Errorf("%d after %v", got.Code, got.took)
				}
			}()
			time.Sleep(10 * time.Millisecond)
		}
		n := a.store.polls.Load() - polls
		if n > 70 {
			t.Errorf("%d polls in ten seconds, want at most 64", n)
		}
		time.Sleep(time.Second)
	})
}

// A process without a follower reads the sequence.
func TestReceiptWithoutPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(tagged("Cache-Tag: news"))
		alone := func(cfg *isr.Config) { cfg.Poll = -1 }
		a := tb.peer("a", isr.Route{}, site, alone)
		get(a, "/")
		receipt := purgeTag(t, a.Cache, "news")
		expect(t, get(a, "/", receipt), "/ rendered 2", "isr; fwd=miss")
		if got := get(a, "/", "ISR-Min-Seq: 2"); got.Code != http.StatusBadRequest {
			t.Errorf("%d for a receipt that was not given", got.Code)
		}
		if err := a.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		b := tb.peer("b", isr.Route{}, site, alone) // restarted
		expect(t, get(b, "/", receipt), "/ rendered 2", "isr; hit")
	})
}

// A stallingLog blocks the first time that something is logged which begins with a text.
type stallingLog struct {
	slog.Handler
	text             string
	stalled, release chan struct{}
}

func (l *stallingLog) Handle(ctx context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, l.text) {
		close(l.stalled)
		<-l.release
	}
	return l.Handler.Handle(ctx, r)
}

// A node that has applied the log for the first time, but has not finished its first poll for
// a while, as when it cannot write its own log, serves visitors with a receipt nothing older.
func TestReceiptDuringTheFirstPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(tagged("Cache-Tag: news"))
		a := tb.peer("a", isr.Route{}, site, nil)
		get(a, "/")
		receipt := purgeTag(t, a.Cache, "news")
		site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) { w.WriteHeader(http.StatusInternalServerError) })

		meta := &faultyStore{MetaStore: tb.store("b")}
		meta.sequence.Store(new(errors.New("throttled")))
		log := &stallingLog{slog.NewTextHandler(tb.log, nil), "purge marks are kept for a shorter time", make(chan struct{}), make(chan struct{})}
		defer close(log.release)
		b := tb.node(meta, func(cfg *isr.Config) {
			cfg.Retention, cfg.Logger = 100*24*time.Hour, slog.New(log)
		}).Handler(isr.Route{}, site)
		time.Sleep(time.Second)
		meta.sequence.Store(nil)
		<-log.stalled
		expect(t, get(b, "/"), "/ rendered 1", "isr; hit; ttl=") // stale
		time.Sleep(3 * time.Second)
		if got := get(b, "/", receipt); got.Code != http.StatusServiceUnavailable || !strings.HasSuffix(got.status(), "detail=min-seq") {
			t.Errorf("got %d %q, %q; want no page", got.Code, got.Body, got.status())
		}
	})
}
