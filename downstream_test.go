package isr_test

import (
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// A downstreamNames names downstream caches, and counts how often it was woken.
type downstreamNames struct {
	names []string
	woken atomic.Int64
}

func (d *downstreamNames) Destinations() []string { return d.names }
func (d *downstreamNames) Wake()                  { d.woken.Add(1) }

// TestChangesReachTheOutbox: purges, rollbacks, pins, unpins and withdrawals are written to
// the outbox for every downstream cache, and wake the delivery; a regeneration is not.
func TestChangesReachTheOutbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 0
		cdns := &downstreamNames{names: []string{"cdn", "edge"}}
		meta := tb.store("a")
		c := tb.node(meta, func(cfg *isr.Config) { cfg.Downstream = cdns })
		withdrawn := false
		c.Handler(withHistory, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if withdrawn {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			site.ServeHTTP(w, r)
		}))
		regenerate := func() error { _, err := c.Regenerate(t.Context(), page); return err }
		one := store.JobTarget{PurgeTarget: store.PurgeTarget{Kind: store.PurgeKey, Value: page.Text}, Hard: true}
		for _, step := range []struct {
			name string
			do   func() error
			want []store.JobTarget
		}{
			{"Regenerate", regenerate, nil},
			{"Regenerate again", regenerate, nil},
			{"Purge", func() error {
				_, err := c.Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{isr.PurgeTag("", "news")}})
				return err
			}, []store.JobTarget{{PurgeTarget: isr.PurgeTag("", "news")}}},
			{"Rollback", func() error { _, err := c.Rollback(t.Context(), page); return err }, []store.JobTarget{one}},
			{"Pin", func() error { _, err := c.Pin(t.Context(), page, time.Hour); return err }, []store.JobTarget{one}},
			{"Unpin", func() error { _, err := c.Unpin(t.Context(), page); return err }, []store.JobTarget{one}},
			{"Withdrawal", func() error { withdrawn = true; _ = regenerate(); return nil }, []store.JobTarget{one}},
		} {
			before := cdns.woken.Load()
			if err := step.do(); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			for _, name := range cdns.names {
				jobs, err := meta.PendingJobs(t.Context(), name, 10)
				if err != nil {
					t.Fatal(err)
				}
				var got []store.JobTarget
				for _, j := range jobs {
					got = append(got, j.Targets...)
				}
				if !slices.Equal(got, step.want) {
					t.Errorf("%s: jobs of %s: %+v, want %+v", step.name, name, got, step.want)
				}
				if err := meta.FinishJobs(t.Context(), jobs); err != nil {
					t.Fatal(err)
				}
			}
			if woken := cdns.woken.Load() - before; (woken > 0) != (step.want != nil) {
				t.Errorf("%s: woken %d times", step.name, woken)
			}
		}
	})
}

// TestChangesOfOtherProgramsWakeTheDelivery: a change whose writer wrote no job for one of the
// downstream caches wakes the delivery once it was read; a change with jobs for all does not,
// nor does one without targets.
func TestChangesOfOtherProgramsWakeTheDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		other, cdns := tb.store("b"), &downstreamNames{names: []string{"cdn", "edge"}}
		tb.node(tb.store("a"), func(cfg *isr.Config) { cfg.Downstream, cfg.Poll = cdns, time.Second })
		purge := func(p store.Purge) {
			p.Targets = []store.PurgeTarget{isr.PurgeTag("", "news")}
			if _, err := other.Purge(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		for _, step := range []struct {
			name string
			do   func()
			want bool
		}{
			{"all destinations", func() { purge(store.Purge{Destinations: cdns.names}) }, false},
			{"one destination", func() { purge(store.Purge{Destinations: []string{"edge"}}) }, true},
			{"no destination", func() { purge(store.Purge{}) }, true},
			{"a build", func() {
				if _, err := other.Build(t.Context(), "b2"); err != nil {
					t.Fatal(err)
				}
			}, false},
		} {
			before := cdns.woken.Load()
			step.do()
			time.Sleep(3 * time.Second)
			if got := cdns.woken.Load() > before; got != step.want {
				t.Errorf("%s: woken %t, want %t", step.name, got, step.want)
			}
		}
	})
}
