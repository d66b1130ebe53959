package isr_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
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

// A peer is a node of a fleet whose pages have versions.
type peer struct {
	*isr.Cache
	http.Handler
	store *faultyStore
}

var withHistory = isr.Route{Name: "site", History: 5}

func (tb *table) peer(name string, rt isr.Route, renderer http.Handler, change func(*isr.Config)) *peer {
	return tb.peerOn(tb.bodies, name, rt, renderer, change)
}

func (tb *table) peerOn(bodies store.BodyStore, name string, rt isr.Route, renderer http.Handler, change func(*isr.Config)) *peer {
	store := &faultyStore{MetaStore: tb.store(name)}
	c := tb.nodeOn(store, bodies, change)
	return &peer{Cache: c, Handler: c.Handler(rt, renderer), store: store}
}

// regenerate makes n generations of the page, a second apart.
func (p *peer) regenerate(t *testing.T, n int) {
	t.Helper()
	for range n {
		time.Sleep(time.Second)
		if _, err := p.Regenerate(t.Context(), page); err != nil {
			t.Fatal(err)
		}
	}
}

// twoGenerations is a fleet that has the second generation of the page in memory.
func twoGenerations(t *testing.T, tb *table, nodes int, change func(*isr.Config)) []*peer {
	t.Helper()
	site := newSite()
	peers := make([]*peer, nodes)
	for i := range peers {
		peers[i] = tb.peer(fmt.Sprint("node", i), withHistory, site, change)
	}
	peers[0].regenerate(t, 2)
	for _, p := range peers {
		expect(t, get(p, "/"), "/ rendered 2", "isr; hit")
	}
	return peers
}

func TestRollbackIsSeenEverywhereWithinAPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peers := twoGenerations(t, newTable(t), 3, nil)
		e, err := peers[1].Rollback(t.Context(), page)
		if err != nil || !e.PinnedUntil.Equal(store.Forever()) || !e.Expires.IsZero() || e.AssertedAt.IsZero() {
			t.Fatalf("Rollback: %+v, %v", e, err)
		}
		expect(t, get(peers[1], "/"), "/ rendered 1", "isr; hit") // its own node knows at once
		time.Sleep(isr.DefaultPoll)
		for _, p := range peers {
			if a := get(p, "/"); a.Body.String() != "/ rendered 1" || a.took > 0 {
				t.Errorf("after a poll: %q after %v", a.Body, a.took)
			}
		}
		time.Sleep(24 * time.Minute) // pinned, it does not age
		for _, p := range peers {
			expect(t, get(p, "/"), "/ rendered 1", "isr; hit; detail=pinned")
		}

		if e, err := peers[2].Unpin(t.Context(), page); err != nil || e.PinnedUntil.After(time.Now()) || e.Expires.IsZero() {
			t.Fatalf("Unpin: %+v, %v", e, err)
		}
		time.Sleep(isr.DefaultPoll)
		expect(t, get(peers[0], "/"), "/ rendered 1", "isr; hit; ttl=-")
		time.Sleep(2 * time.Second)
		expect(t, get(peers[0], "/"), "/ rendered 3", "isr; hit; ttl=")
	})
}

// A read of the store that began before a rollback and returns after it is served to its
// own visitor only.
func TestReadFromBeforeARollbackIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, b, early := rolledBackDuringRead(t, 10*time.Second)
		time.Sleep(isr.DefaultPoll)
		// No request joins the flight that has read too early, or gets what it read.
		expect(t, get(b, "/"), "/ rendered 1", "isr; hit")
		expect(t, <-early, "/ rendered 2", "isr; hit")
		expect(t, get(b, "/"), "/ rendered 1", "isr; hit")
	})
}

// The same holds if the node cannot know what was changed: no request joins a flight that began
// before a gap of the log.
func TestReadFromBeforeAGapIsNotJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, b, early := rolledBackDuringRead(t, 10*time.Second)
		tb.deleteRow("PURGE", fmt.Sprintf("LOG#%020d", 1)) // of the rollback
		time.Sleep(2 * time.Second)
		if !strings.Contains(tb.log.String(), "the end of the log is missing") {
			t.Fatal("there was no gap")
		}
		expect(t, get(b, "/"), "/ rendered 1", "isr; hit")
		expect(t, <-early, "/ rendered 2", "isr; hit")
		expect(t, get(b, "/"), "/ rendered 1", "isr; hit")
	})
}

// A hard purge during a render takes effect also on the node that renders, and that has
// read of it before it publishes: the rendered page is served to no visitor.
// Package isrtest/simulator found that it was.
func TestPurgeDuringARenderTakesEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 5 * time.Second
		p := tb.peer("a", withHistory, site, nil)
		waiting := make(chan answer)
		go func() { waiting <- get(p, "/") }()
		time.Sleep(time.Second)
		tb.purge(page, 1)
		tb.putLogRow(1, &types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberM{
			Value: map[string]types.AttributeValue{
				"kind": &types.AttributeValueMemberS{Value: "reload"}, "key": &types.AttributeValueMemberS{Value: page.Text},
			},
		}}})
		expect(t, <-waiting, "/ rendered 2", "isr; fwd=miss; fwd-status=200; stored")
		expect(t, get(p, "/"), "/ rendered 2", "isr; hit")
	})
}

// A rollback of a page removes its negative entry.
func TestRollbackRemovesTheNegativeEntry(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request, int64){
		"uncacheable": func(w http.ResponseWriter, _ *http.Request, _ int64) { w.Header().Set("Cache-Control", "private") },
		"failing":     func(w http.ResponseWriter, _ *http.Request, _ int64) { w.WriteHeader(500) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				rt := withHistory
				rt.Stale = -1
				a, b := tb.peer("a", rt, site, nil), tb.peer("b", rt, site, nil)
				a.regenerate(t, 2)
				site.answers(answer)
				time.Sleep(10 * time.Minute)
				get(b, "/")
				if _, err := a.Rollback(t.Context(), page); err != nil {
					t.Fatal(err)
				}
				time.Sleep(isr.DefaultPoll)
				expect(t, get(b, "/"), "/ rendered 1", "isr; hit")
			})
		})
	}
}

func TestUnreachableLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		peers := twoGenerations(t, tb, 2, nil)
		a, b := peers[0], peers[1]
		b.store.changes.Store(new(errors.New("the store is down")))
		if _, err := a.Rollback(t.Context(), page); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		expect(t, get(b, "/"), "/ rendered 2", "isr; hit")
		if n := strings.Count(tb.log.String(), "failed to read the log"); n != 1 {
			t.Errorf("%d lines of the outage, want 1", n)
		}
		b.store.changes.Store(nil)
		time.Sleep(isr.DefaultPoll)
		expect(t, get(b, "/"), "/ rendered 1", "isr; hit")
		if n := strings.Count(tb.log.String(), "the log can be read again"); n != 1 {
			t.Errorf("%d lines of its end, want 1", n)
		}
	})
}

// The log distinguishes pages of tenants from pages of sites without tenants.
func TestRollbackOfATenantsPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		rt := isr.Route{Name: "site", History: 3, TenantHeader: "X-Tenant"}
		a, b := tb.peer("a", rt, site, nil), tb.peer("b", rt, site, nil)
		for _, tenant := range []string{"acme", "other"} {
			for range 2 {
				if _, err := a.Regenerate(t.Context(), store.Key{Tenant: tenant, Text: page.Text}); err != nil {
					t.Fatal(err)
				}
			}
			get(b, "/", "X-Tenant: "+tenant)
		}
		if _, err := a.Rollback(t.Context(), store.Key{Tenant: "acme", Text: page.Text}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(isr.DefaultPoll)
		expect(t, get(b, "/", "X-Tenant: acme"), "/ rendered 1", "isr; hit")
		before := b.store.reads.Load()
		expect(t, get(b, "/", "X-Tenant: other"), "/ rendered 4", "isr; hit")
		if b.store.reads.Load() != before {
			t.Error("another tenant's page was dropped from memory")
		}
	})
}

// A node that may have missed a change drops all pages. Before each case the log has one
// row, of a pin, at sequence 1.
func TestUnknownChangesDropAllPages(t *testing.T) {
	const logLife = 10 * time.Minute
	for _, tt := range []struct {
		name   string
		happen func(t *testing.T, tb *table, b *peer, clock *atomic.Int64)
		says   string
	}{
		{"a gap", func(t *testing.T, tb *table, _ *peer, _ *atomic.Int64) {
			tb.putLog(3)
		}, "has a gap"},
		{"a row that cannot be read", func(_ *testing.T, tb *table, _ *peer, _ *atomic.Int64) {
			tb.putLogRow(2, &types.AttributeValueMemberS{Value: "all"})
			tb.putSequence(2)
		}, "LOG#00000000000000000002"},
		{"its end was trimmed", func(t *testing.T, tb *table, _ *peer, _ *atomic.Int64) {
			tb.putSequence(2)
		}, "end of the log is missing"},
		{"the table was replaced", func(t *testing.T, tb *table, _ *peer, _ *atomic.Int64) {
			tb.deleteRow("PURGE", fmt.Sprintf("LOG#%020d", 1))
			tb.putSequence(0)
		}, "shorter than it was"},
		{"an outage", func(_ *testing.T, _ *table, b *peer, _ *atomic.Int64) {
			b.store.changes.Store(new(errors.New("the store is down")))
			time.Sleep(logLife/2 + time.Minute)
			b.store.changes.Store(nil)
		}, "not read for too long"},
		{"the machine slept", func(_ *testing.T, _ *table, _ *peer, clock *atomic.Int64) {
			clock.Store(int64(logLife))
		}, "not read for too long"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := newTable(t)
				var ahead atomic.Int64
				b := twoGenerations(t, tb, 1, func(cfg *isr.Config) {
					cfg.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
					cfg.LogLife = logLife
				})[0]
				if _, err := b.Pin(t.Context(), page, 0); err != nil { // so that it does not age
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				get(b, "/")
				before := b.store.reads.Load()
				get(b, "/")
				if b.store.reads.Load() != before {
					t.Fatal("the page is not in memory")
				}
				tt.happen(t, tb, b, &ahead)
				time.Sleep(2 * time.Minute)
				if !strings.Contains(tb.log.String(), tt.says) {
					t.Errorf("the log does not say %q", tt.says)
				}
				before = b.store.reads.Load()
				get(b, "/")
				time.Sleep(time.Second)
				if b.store.reads.Load() == before {
					t.Error("the page was served from memory")
				}
				if n := strings.Count(tb.log.String(), "dropped all pages from memory"); n != 1 {
					t.Errorf("memory was dropped %d times, want once", n)
				}
			})
		})
	}
}

// Rows beyond the end of the log drop no page, and later changes are applied.
func TestStrayRowsOfTheLog(t *testing.T) {
	for name, stray := range map[string]struct {
		seq     int64
		targets types.AttributeValue
	}{
		"malformed, next":    {1, &types.AttributeValueMemberS{Value: "all"}},
		"malformed, later":   {100, &types.AttributeValueMemberS{Value: "all"}},
		"well formed, next":  {1, &types.AttributeValueMemberL{Value: []types.AttributeValue{reloadOf(page.Text)}}},
		"well formed, later": {100, &types.AttributeValueMemberL{Value: []types.AttributeValue{reloadOf(page.Text)}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := newTable(t)
				peers := twoGenerations(t, tb, 2, nil)
				a, b := peers[0], peers[1]
				tb.putLogRow(stray.seq, stray.targets)
				time.Sleep(10 * time.Second)
				before := b.store.reads.Load()
				expect(t, get(b, "/"), "/ rendered 2", "isr; hit")
				if b.store.reads.Load() != before {
					t.Error("the page was dropped from memory")
				}
				time.Sleep(time.Minute)
				if n := strings.Count(tb.log.String(), "ignoring rows"); n != len(peers) {
					t.Errorf("%d lines about the row, want one of each node", n)
				}
				versions, err := a.Versions(t.Context(), page)
				if err != nil {
					t.Fatal(err)
				}
				for number, v := range slices.Backward(versions) { // the newest is first
					if _, err := a.Rollback(t.Context(), page, isr.RollbackTo(v.GenerationID)); err != nil {
						t.Fatal(err)
					}
					time.Sleep(isr.DefaultPoll)
					expect(t, get(b, "/"), fmt.Sprint("/ rendered ", len(versions)-number), "isr; hit")
				}
			})
		})
	}
}

// While the sequence cannot be read, nodes serve their pages as cut off from the log; what
// they missed is applied afterwards.
func TestUnreadableSequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		b := twoGenerations(t, tb, 1, nil)[0]
		if _, err := b.Pin(t.Context(), page, 0); err != nil { // so that it does not age
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		get(b, "/")
		tb.putRow(map[string]types.AttributeValue{
			"pk": &types.AttributeValueMemberS{Value: "PURGE"}, "sk": &types.AttributeValueMemberS{Value: "SEQ"},
			"seq": &types.AttributeValueMemberS{Value: "2"},
		})
		time.Sleep(2 * time.Minute)
		before := b.store.reads.Load()
		if a := get(b, "/"); a.Body.String() != "/ rendered 2" || !strings.HasSuffix(a.status(), "; detail=cut-off") {
			t.Errorf("without the log: %q, %q", a.Body, a.status())
		}
		if b.store.reads.Load() != before {
			t.Fatal("the page is not in memory")
		}
		if n := strings.Count(tb.log.String(), "failed to read the log"); n != 1 {
			t.Errorf("%d lines of the sequence in two minutes, want one", n)
		}
		tb.putLogRow(2, &types.AttributeValueMemberL{Value: []types.AttributeValue{reloadOf(page.Text)}})
		tb.putSequence(2)
		time.Sleep(isr.DefaultPoll)
		expect(t, get(b, "/"), "/ rendered 2", "isr; hit")
		if b.store.reads.Load() == before {
			t.Error("the page was served from memory")
		}
	})
}

func TestPollInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		for _, tt := range []struct {
			poll     time.Duration
			from, to int64 // polls in a minute
		}{
			{0, 240, 300},
			{10 * time.Second, 6, 8},
			{-1, 0, 0},
		} {
			p := tb.peer("a", isr.Route{}, newSite(), func(cfg *isr.Config) { cfg.Poll = tt.poll })
			time.Sleep(time.Second)
			before := p.store.polls.Load()
			time.Sleep(time.Minute)
			if n := p.store.polls.Load() - before; n < tt.from || n > tt.to {
				t.Errorf("%v: %d polls in a minute, want %d to %d", tt.poll, n, tt.from, tt.to)
			}
			if err := p.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			before = p.store.polls.Load()
			time.Sleep(time.Minute)
			if n := p.store.polls.Load() - before; n != 0 {
				t.Errorf("%d polls after Close", n)
			}
		}
		for _, poll := range []time.Duration{time.Millisecond, time.Hour} {
			if _, err := isr.New(tb.store("a"), tb.bodies, isr.Config{Poll: poll}); err == nil {
				t.Errorf("a poll interval of %v is accepted", poll)
			}
		}
	})
}

// A node that does not read the log applies its own changes.
func TestNodeWithoutPollsAppliesItsOwnChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := twoGenerations(t, newTable(t), 1, func(cfg *isr.Config) { cfg.Poll = -1 })[0]
		if _, err := p.Rollback(t.Context(), page); err != nil {
			t.Fatal(err)
		}
		expect(t, get(p, "/"), "/ rendered 1", "isr; hit")
	})
}

// rolledBackDuringRead makes a node roll the page back while another one, b, reads a body
// with a delay. early is the response of b to the request that started that read.
func rolledBackDuringRead(t *testing.T, delay time.Duration) (tb *table, b *peer, early chan answer) {
	t.Helper()
	tb, site := newTable(t), newSite()
	a := tb.peer("a", withHistory, site, nil)
	a.regenerate(t, 2)
	slow := &slowBodies{BodyStore: tb.bodies}
	b = tb.peerOn(slow, "b", withHistory, site, func(cfg *isr.Config) { cfg.StoreTimeout = 24 * time.Hour })
	time.Sleep(time.Second)

	slow.delay.Store(int64(delay))
	early = make(chan answer)
	go func() { early <- get(b, "/") }()
	time.Sleep(time.Second)
	slow.delay.Store(0)
	if _, err := a.Rollback(t.Context(), page); err != nil {
		t.Fatal(err)
	}
	return tb, b, early
}

// slowBodies opens bodies with a delay.
type slowBodies struct {
	store.BodyStore
	delay atomic.Int64
}

func (s *slowBodies) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	time.Sleep(time.Duration(s.delay.Load()))
	return s.BodyStore.Open(ctx, key)
}

// putLog writes a row of the log, and the sequence, as another node would.
func (tb *table) putLog(seq int64) {
	tb.putLogRow(seq, &types.AttributeValueMemberL{})
	tb.putSequence(seq)
}

// putLogRow writes a row of the log, without the sequence.
func (tb *table) putLogRow(seq int64, targets types.AttributeValue) {
	tb.putRow(map[string]types.AttributeValue{
		"pk":      &types.AttributeValueMemberS{Value: "PURGE"},
		"sk":      &types.AttributeValueMemberS{Value: fmt.Sprintf("LOG#%020d", seq)},
		"targets": targets,
		"ttl":     &types.AttributeValueMemberN{Value: fmt.Sprint(time.Now().Add(time.Hour).Unix())},
	})
}

func (tb *table) putSequence(seq int64) {
	tb.putRow(map[string]types.AttributeValue{
		"pk":  &types.AttributeValueMemberS{Value: "PURGE"},
		"sk":  &types.AttributeValueMemberS{Value: "SEQ"},
		"seq": &types.AttributeValueMemberN{Value: fmt.Sprint(seq)},
	})
}

func (tb *table) deleteRow(pk, sk string) {
	tb.t.Helper()
	_, err := tb.db.DeleteItem(tb.t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String(tableName), Key: map[string]types.AttributeValue{
		"pk": &types.AttributeValueMemberS{Value: pk}, "sk": &types.AttributeValueMemberS{Value: sk},
	}})
	if err != nil {
		tb.t.Fatal(err)
	}
}

// A change costs no poll in addition, and nodes do not read SEQ by itself.
func TestCostOfAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		peers := twoGenerations(t, tb, 2, nil)
		log := peers[1].store
		time.Sleep(5 * time.Second)
		polls, sequences := log.polls.Load(), log.sequences.Load()
		time.Sleep(10 * time.Second)
		quiet := log.polls.Load() - polls
		began := time.Now()
		polls = log.polls.Load()
		if _, err := peers[0].Pin(t.Context(), page, 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10*time.Second - time.Since(began))
		if n := log.polls.Load() - polls - quiet; n > 2 { // because of jitter
			t.Errorf("the log was read %d times more than without the change", n)
		}
		if n := log.sequences.Load() - sequences; n != 0 {
			t.Errorf("SEQ was read %d times by itself", n)
		}
	})
}

// A heldLog delays reads of the log until they are released, or the context ends.
type heldLog struct {
	store.MetaStore
	held  atomic.Pointer[chan struct{}] // nil: answers are not
	polls atomic.Int64
}

func (l *heldLog) hold() (release func()) {
	held := make(chan struct{})
	l.held.Store(&held)
	return func() {
		l.held.Store(nil)
		close(held)
	}
}

func (l *heldLog) Changes(ctx context.Context, after int64) (store.Sequence, []store.Change, error) {
	l.polls.Add(1)
	seq, changes, err := l.MetaStore.Changes(ctx, after)
	if held := l.held.Load(); held != nil {
		select {
		case <-*held:
		case <-ctx.Done():
			return store.Sequence{}, nil, context.Cause(ctx)
		}
	}
	return seq, changes, err
}

// A node that was frozen while a page was rolled back does not serve the page from memory,
// not even to the first request after that.
func TestThawedNodePollsFirst(t *testing.T) {
	for name, thaw := range map[string]func(b http.Handler, log *heldLog, ahead *atomic.Int64, rollback func()) answer{
		"the machine slept": func(b http.Handler, _ *heldLog, ahead *atomic.Int64, rollback func()) answer {
			rollback()
			ahead.Store(int64(3 * time.Second)) // of the wall clock alone
			return get(b, "/")
		},
		"the process was stopped in the middle of a poll": func(b http.Handler, log *heldLog, _ *atomic.Int64, rollback func()) answer {
			release := log.hold()
			time.Sleep(isr.DefaultPoll)
			rollback()
			time.Sleep(3 * time.Second)
			got := make(chan answer)
			go func() { got <- get(b, "/") }()
			synctest.Wait()
			release() // it answers what was true three seconds ago
			return <-got
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				a := tb.peer("a", withHistory, site, nil)
				a.regenerate(t, 2)
				log, ahead := &heldLog{MetaStore: tb.store("b")}, new(atomic.Int64)
				b := tb.node(log, func(cfg *isr.Config) {
					cfg.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
				}).Handler(withHistory, site)
				expect(t, get(b, "/"), "/ rendered 2", "isr; hit")
				time.Sleep(3 * time.Second)
				thawed := thaw(b, log, ahead, func() {
					if _, err := a.Rollback(t.Context(), page); err != nil {
						t.Fatal(err)
					}
				})
				expect(t, thawed, "/ rendered 1", "isr; hit")
				// Reads that conflict with a write are repeated within milliseconds.
				if thawed.took > isr.DefaultPoll/2 || strings.Contains(thawed.status(), "cut-off") {
					t.Errorf("answered after %v, %q", thawed.took, thawed.status())
				}
			})
		})
	}
}

// An interruptedLog fails a read of the log in its own way.
type interruptedLog struct {
	store.MetaStore
	next atomic.Pointer[func() error] // how the next read fails; nil: it does not
}

func (l *interruptedLog) Changes(ctx context.Context, after int64) (store.Sequence, []store.Change, error) {
	if fail := l.next.Swap(nil); fail != nil {
		return store.Sequence{}, nil, (*fail)()
	}
	return l.MetaStore.Changes(ctx, after)
}

// A poll that fails because the process was frozen during the poll is no outage of the log: all
// requests that come after that wait for another poll, and none is served what was purged.
func TestPollThatFailsInAFreezeIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		a := tb.peer("a", withHistory, site, nil)
		a.regenerate(t, 2)
		log, ahead := &interruptedLog{MetaStore: tb.store("b")}, new(atomic.Int64)
		b := tb.node(log, func(cfg *isr.Config) {
			cfg.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		}).Handler(withHistory, site)
		expect(t, get(b, "/"), "/ rendered 2", "isr; hit")
		time.Sleep(3 * time.Second)
		log.next.Store(new(func() error {
			if _, err := a.Rollback(t.Context(), page); err != nil {
				t.Error(err)
			}
			ahead.Store(int64(3 * time.Second)) // the machine sleeps, and its connections are lost
			return errors.New("connection reset by peer")
		}))
		for log.next.Load() != nil { // the next poll succeeds
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		answers := make(chan answer)
		const requests = 8
		for range requests {
			go func() { answers <- get(b, "/") }()
		}
		for range requests {
			if got := <-answers; got.Body.String() != "/ rendered 1" || strings.Contains(got.status(), "cut-off") {
				t.Errorf("after the freeze: %q, %q", got.Body, got.status())
			}
		}
	})
}

// A node that cannot read the log serves pages from memory, with a detail, and without
// waiting once that is known.
func TestCutOffNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		b := twoGenerations(t, tb, 1, nil)[0]
		marked := func(path string) bool {
			t.Helper()
			a := get(b, path)
			if a.Code != http.StatusOK || a.took > 0 {
				t.Errorf("%s: %d after %v", path, a.Code, a.took)
			}
			return strings.HasSuffix(a.status(), "; detail=cut-off")
		}
		b.store.changes.Store(new(errors.New("the log is throttled")))
		time.Sleep(1500 * time.Millisecond)
		if marked("/") {
			t.Error("marked before the bound")
		}
		for range 20 {
			time.Sleep(time.Second)
			if !marked("/") {
				t.Error("not marked beyond the bound")
			}
		}
		get(b, "/other") // read from the store just now
		if marked("/other") {
			t.Error("a page is marked that was just read")
		}
		time.Sleep(3 * time.Second)
		if !marked("/other") {
			t.Error("a page is not marked that was read before the bound")
		}
		if n := strings.Count(tb.log.String(), "pages are served from memory although"); n != 1 {
			t.Errorf("%d lines of the outage, want 1", n)
		}
		b.store.changes.Store(nil)
		time.Sleep(isr.DefaultPoll)
		if marked("/") {
			t.Error("marked though the log is read again")
		}
	})
}

// While reads of the log hang, all visitors wait for one poll, for a short time; after that
// one request per bound waits.
func TestHangingLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		log := &heldLog{MetaStore: tb.store("a")}
		site := newSite()
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			w.Header().Set("Cache-Control", "public, max-age=86400, stale-while-revalidate=86400")
			_, _ = w.Write([]byte(r.URL.Path))
		})
		h := tb.node(log, nil).Handler(isr.Route{}, site)
		get(h, "/")
		time.Sleep(3 * time.Second)
		release := log.hold()
		time.Sleep(3 * time.Second)
		polls := log.polls.Load()
		waited := func() (n int) {
			for _, a := range crowd(100, []http.Handler{h}, "/") {
				switch {
				case !strings.HasSuffix(a.status(), "; detail=cut-off"):
					t.Errorf("%q", a.status())
				case a.took == isr.DefaultStoreTimeout:
					n++
				case a.took > 0:
					t.Errorf("waited %v", a.took)
				}
			}
			return n
		}
		if n := waited(); n != 100 {
			t.Errorf("%d of 100 waited for the poll", n)
		}
		if n := waited(); n != 0 {
			t.Errorf("%d waited though it was known", n)
		}
		time.Sleep(2500 * time.Millisecond)
		if n := waited(); n != 1 {
			t.Errorf("%d waited to see whether it is still so, want 1", n)
		}
		if n := log.polls.Load() - polls; n > 1 {
			t.Errorf("%d polls in 6 seconds", n)
		}
		release()
		synctest.Wait()
		expect(t, get(h, "/"), "/", "isr; hit; ttl=8")
		if a := get(h, "/"); strings.Contains(a.status(), "cut-off") {
			t.Errorf("%q once the log is read again", a.status())
		}
	})
}

// A process that does not poll has no staleness bound.
func TestNoBoundWithoutTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := twoGenerations(t, newTable(t), 1, func(cfg *isr.Config) { cfg.Poll = -1 })[0]
		time.Sleep(30 * time.Second)
		if a := get(p, "/"); a.took > 0 || strings.Contains(a.status(), "detail") {
			t.Errorf("%q after %v", a.status(), a.took)
		}
	})
}

// A node that starts while SEQ cannot be read serves what it reads for a short time, then
// reads META again. It keeps bodies.
func TestStartWithoutTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		a := twoGenerations(t, tb, 1, nil)[0]
		store, bodies := &faultyStore{MetaStore: tb.store("late")}, &countedBodies{BodyStore: tb.bodies}
		store.sequence.Store(new(errors.New("the log is throttled")))
		b := tb.nodeOn(store, bodies, nil).Handler(withHistory, newSite())
		reads := func(f func()) int64 {
			before := store.reads.Load()
			f()
			return store.reads.Load() - before
		}
		if n := reads(func() { crowd(1_000, []http.Handler{b}, "/") }); n != 1 {
			t.Errorf("%d reads for a crowd, want 1", n)
		}
		time.Sleep(1500 * time.Millisecond)
		if n := reads(func() { expect(t, get(b, "/"), "/ rendered 2", "isr; hit") }); n != 0 {
			t.Errorf("%d reads within the bound, want none", n)
		}
		time.Sleep(time.Second)
		if n := reads(func() { crowd(1_000, []http.Handler{b}, "/") }); n != 1 {
			t.Errorf("%d reads beyond the bound, want 1", n)
		}
		if n := bodies.opens.Load(); n != 1 {
			t.Errorf("the body was fetched %d times", n)
		}

		if _, err := a.Rollback(t.Context(), page); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2100 * time.Millisecond)
		expect(t, get(b, "/"), "/ rendered 1", "isr; hit")
		store.sequence.Store(nil)
		time.Sleep(isr.DefaultPoll)
		if n := reads(func() { expect(t, get(b, "/"), "/ rendered 1", "isr; hit") }); n != 1 {
			t.Errorf("%d reads once the log is known, want 1: what was read before may be old", n)
		}
		time.Sleep(3 * time.Second)
		if n := reads(func() { expect(t, get(b, "/"), "/ rendered 1", "isr; hit") }); n != 0 {
			t.Error("the page is not served from memory once the log is known")
		}
		if n := bodies.opens.Load(); n != 2 {
			t.Errorf("bodies were fetched %d times, want once each", n)
		}
	})
}

// If META cannot be read either, the page is served, with a detail.
func TestStartWithoutTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		twoGenerations(t, tb, 1, nil)
		store := &faultyStore{MetaStore: tb.store("late")}
		store.sequence.Store(new(errors.New("the store is down")))
		b := tb.node(store, nil).Handler(withHistory, newSite())
		get(b, "/")
		store.read = func() error { return errors.New("the store is down") }
		time.Sleep(3 * time.Second)
		a := get(b, "/")
		expect(t, a, "/ rendered 2", "isr; hit")
		if !strings.HasSuffix(a.status(), "; detail=cut-off") {
			t.Errorf("%q, want it marked", a.status())
		}
	})
}

// cutOff makes a node that has the page / in memory unable to read the log, until restored.
func cutOff(t *testing.T, tb *table, policy isr.BlindPolicy) (p *peer, renders *site, restore func()) {
	t.Helper()
	site := newSite()
	site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
		if r.URL.Path == "/down" {
			http.Error(w, "down", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Cache-Control", "public, max-age=86400, stale-while-revalidate=86400")
		_, _ = w.Write([]byte(r.URL.Path))
	})
	p = tb.peer("a", isr.Route{}, site, func(cfg *isr.Config) { cfg.Blind = policy })
	for _, path := range []string{"/", "/stored"} {
		expect(t, get(p, path), path, "isr; fwd=miss")
	}
	p.store.changes.Store(new(errors.New("the log is throttled")))
	return p, site, func() { p.store.changes.Store(nil) }
}

// Until MaxBlind, all policies serve what there is.
func TestBlindPolicyWaitsForMaxBlind(t *testing.T) {
	for _, policy := range []isr.BlindPolicy{isr.BlindServe, isr.BlindRefuse} {
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, _, _ := cutOff(t, newTable(t), policy)
				time.Sleep(9500 * time.Millisecond)
				a := get(p, "/")
				expect(t, a, "/", "isr; hit")
				if !strings.HasSuffix(a.status(), "; detail=cut-off") {
					t.Errorf("status %q", a.status())
				}
			})
		})
	}
}

func TestBlindServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, site, _ := cutOff(t, newTable(t), isr.BlindServe)
		time.Sleep(time.Hour)
		expect(t, get(p, "/"), "/", "isr; hit")
		if n := site.renders.Load(); n != 2 {
			t.Errorf("%d renders, want the 2 renders of the start", n)
		}
	})
}

func TestBlindRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		p, site, restore := cutOff(t, tb, isr.BlindRefuse)
		time.Sleep(11 * time.Second)
		for _, path := range []string{"/", "/stored", "/new"} {
			a := get(p, path)
			if a.Code != http.StatusServiceUnavailable || a.Header().Get("Retry-After") != "1" || !strings.HasSuffix(a.status(), "; detail=cut-off") {
				t.Errorf("%s: %d, Retry-After %q, %q", path, a.Code, a.Header().Get("Retry-After"), a.status())
			}
		}
		if n := site.renders.Load(); n != 2 {
			t.Errorf("%d renders, want the 2 renders of the start", n)
		}
		expect(t, get(p, "/", "Authorization: me"), "/", "isr; fwd=bypass")

		if n := strings.Count(tb.log.String(), "requests are refused until it is"); n != 1 {
			t.Errorf("%d lines in the log, want 1", n)
		}

		restore()
		time.Sleep(isr.DefaultPoll)
		expect(t, get(p, "/"), "/", "isr; hit")
		expect(t, get(p, "/new"), "/new", "isr; fwd=miss")
	})
}

// A node that was frozen for longer than MaxBlind polls before it refuses anything.
func TestThawedNodeIsNotBlind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		ahead := new(atomic.Int64)
		h := tb.node(tb.store("a"), func(cfg *isr.Config) {
			cfg.Blind = isr.BlindRefuse
			cfg.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		}).Handler(isr.Route{}, newSite())
		get(h, "/")
		ahead.Store(int64(30 * time.Second)) // of the wall clock alone: the machine slept
		for _, a := range crowd(20, []http.Handler{h}, "/") {
			expect(t, a, "/ rendered 1", "isr; hit")
		}
	})
}

func TestBlindPolicyText(t *testing.T) {
	for _, policy := range []isr.BlindPolicy{isr.BlindServe, isr.BlindRefuse} {
		text, err := policy.MarshalText()
		var parsed isr.BlindPolicy
		if err != nil || parsed.UnmarshalText(text) != nil || parsed != policy {
			t.Errorf("%v: %q, %v, parsed as %v", policy, text, err, parsed)
		}
	}
	if _, err := isr.BlindPolicy(7).MarshalText(); err == nil {
		t.Error("an invalid policy has a text")
	}
	for text, want := range map[string]string{"hope": "expected serve or refuse", "revalidate": "was removed; use refuse"} {
		if err := new(isr.BlindPolicy).UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parsing %q: %v", text, err)
		}
	}
	for _, cfg := range []isr.Config{{Blind: 2}, {MaxBlind: time.Millisecond}, {MaxBlind: 25 * time.Hour}} {
		var invalid *isr.ConfigError
		if _, err := isr.New(nil, nil, cfg); !errors.As(err, &invalid) {
			t.Errorf("New accepts %+v: %v", cfg, err)
		}
	}
}
