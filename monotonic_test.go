package isr_test

import (
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
)

// A wall clock that is set back by an hour delays no retry of any kind by an hour.
func TestClockSetBackDelaysNoRetry(t *testing.T) {
	for name, run := range map[string]func(t *testing.T, h http.Handler, store *faultyStore, site *site, setBack func()){
		"a stale page": func(t *testing.T, h http.Handler, store *faultyStore, site *site, setBack func()) {
			get(h, "/")
			time.Sleep(time.Minute)
			store.read = func() error { return errors.New("throttled") } // by a regeneration behind
			expect(t, get(h, "/"), "/ rendered 1", "isr; hit")
			synctest.Wait()
			store.read = nil
			setBack()
			time.Sleep(1100 * time.Millisecond)
			expect(t, get(h, "/"), "/ rendered 1", "isr; hit")
			time.Sleep(2 * time.Second)
			expect(t, get(h, "/"), "/ rendered 2", "isr; hit")
		},
		"a page whose failure is remembered": func(t *testing.T, h http.Handler, store *faultyStore, site *site, setBack func()) {
			store.read = func() error { return errors.New("throttled") } // so that no back-off is stored
			site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) { w.WriteHeader(500) })
			get(h, "/")
			store.read = nil
			site.answers(cacheable)
			setBack()
			time.Sleep(2 * time.Second)
			expect(t, get(h, "/"), "/ rendered 2", "isr; fwd=miss; fwd-status=200; stored")
		},
		"a page that was uncacheable": func(t *testing.T, h http.Handler, _ *faultyStore, site *site, setBack func()) {
			site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) { w.Header().Set("Cache-Control", "private") })
			get(h, "/")
			get(h, "/") // remembered on
			site.answers(cacheable)
			setBack()
			time.Sleep(2*time.Minute + time.Second)
			expect(t, get(h, "/"), "/ rendered 3", "isr; fwd=miss; fwd-status=200; stored")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				var back atomic.Int64
				store := &faultyStore{MetaStore: tb.store("a")}
				h := tb.node(store, func(cfg *isr.Config) {
					cfg.Now = func() time.Time { return time.Now().Add(-time.Duration(back.Load())) }
				}).Handler(isr.Route{}, site)
				time.Sleep(time.Second)
				run(t, h, store, site, func() { back.Store(int64(time.Hour)) })
			})
		})
	}
}
