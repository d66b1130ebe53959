package isr_test

import (
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// A distantStore is a store of bodies on a slow network. It counts the bodies that are opened at
// once.
type distantStore struct {
	store.BodyStore
	now, most atomic.Int64
}

func (s *distantStore) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	n := s.now.Add(1)
	defer s.now.Add(-1)
	s.most.Store(max(s.most.Load(), n))
	time.Sleep(10 * time.Millisecond)
	return s.BodyStore.Open(ctx, key)
}

// A node that starts with an empty memory tier reads Config.Fills bodies at once, and renders
// none of them again.
func TestFillsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 0
		first, all := tb.node(tb.store("first"), nil).Handler(isr.Route{}, site), paths(40)
		inTurn(first, all...)
		bodies := &distantStore{BodyStore: tb.bodies}
		restarted := tb.nodeOn(tb.store("restarted"), bodies, func(cfg *isr.Config) { cfg.Fills = 4 }).Handler(isr.Route{}, site)
		rendered := site.renders.Load()
		var visitors sync.WaitGroup
		for _, path := range all {
			visitors.Go(func() {
				if a := get(restarted, path); a.Code != http.StatusOK {
					t.Errorf("%s: %d", path, a.Code)
				}
			})
		}
		visitors.Wait()
		if most := bodies.most.Load(); most != 4 {
			t.Errorf("%d bodies were opened at once, want 4", most)
		}
		if n := site.renders.Load() - rendered; n != 0 {
			t.Errorf("%d pages were rendered again", n)
		}
	})
}
