package spec_test

import (
	"testing"
	"time"

	"github.com/facetheory/isr/internal/vocabulary"
	"github.com/facetheory/isr/store"
)

// A decision is the state of an entry at an instant.
type decision struct {
	Name       string           `json:"name"`
	Entry      vocabulary.Entry `json:"entry"`
	Cover      *cover           `json:"cover,omitempty"`
	Now        int64            `json:"now_ms"`
	State      string           `json:"state"`
	FreshUntil int64            `json:"fresh_until_ms"`
	StaleUntil int64            `json:"stale_until_ms"`
	Age        int64            `json:"age_seconds"`
}

func (v *decision) answer() {
	e, now := v.Entry.ISR(), time.UnixMilli(v.Now)
	v.State = store.Freshness(&e, v.Cover.cover(), now).String()
	v.FreshUntil, v.StaleUntil = e.FreshUntil().UnixMilli(), e.StaleUntil().UnixMilli()
	v.Age = int64(e.Age(now) / time.Second)
}

func TestFreshness(t *testing.T) {
	type file struct {
		Decisions []decision `json:"decisions"`
	}
	run(t, "freshness.json", func(f *file) {
		states := make(map[string]int)
		for i := range f.Decisions {
			f.Decisions[i].answer()
			states[f.Decisions[i].State]++
		}
		for _, state := range []store.State{store.Fresh, store.Stale, store.Expired, store.Purged} {
			if states[state.String()] < 3 {
				t.Errorf("%d decisions for %v, want at least 3", states[state.String()], state)
			}
		}
		if states[store.Missing.String()] == 0 {
			t.Error("no decision is about a withdrawn entry")
		}
	})
}
