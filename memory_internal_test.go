package isr

import (
	"testing"
	"time"

	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/store"
)

// testMemory is a memory that keeps readings from start or later.
func testMemory(t *testing.T, start time.Time) *memory {
	t.Helper()
	m, err := newMemory(1<<20, new(floor), nil)
	if err != nil {
		t.Fatal(err)
	}
	m.floor.raise(start)
	return m
}

func TestMemoryPrefersNewerReadings(t *testing.T) {
	start := time.Now()
	saw := func(version int64, began, ended int) *page.Page {
		at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
		return page.New(store.Key{Text: "h/"}, store.Entry{Version: version, Foreign: version == 0}, store.PurgeState{}, page.Interval{Began: at(began), Ended: at(ended)}, nil, new(page.View))
	}
	const (
		older = iota
		newer
		unclear
	)
	tests := []struct {
		name     string
		old, new *page.Page
		kept     int
	}{
		{"a later version, read later", saw(1, 0, 1), saw(2, 1, 2), newer},
		{"a later version, read earlier", saw(1, 1, 2), saw(2, 0, 1), older},
		{"an earlier version, read later: another service has replaced the row", saw(2, 0, 1), saw(1, 1, 2), newer},
		{"the same version, read later", saw(2, 0, 1), saw(2, 1, 2), newer},
		{"the same version, read earlier", saw(2, 1, 2), saw(2, 0, 1), older},
		{"the same version, overlapping reads", saw(2, 0, 2), saw(2, 1, 3), newer},
		{"another writer's, read later", saw(2, 0, 1), saw(0, 1, 2), newer},
		{"another writer's, read earlier", saw(2, 1, 2), saw(0, 0, 1), older},
		{"another version, overlapping reads", saw(1, 0, 2), saw(2, 1, 3), unclear},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := testMemory(t, start)
			m.put(tt.old, new(flight))
			clear := m.put(tt.new, new(flight))
			if want := tt.kept != unclear; clear != want {
				t.Errorf("clear: %v, want %v", clear, want)
			}
			if got, want := m.get(tt.old.Key), []*page.Page{tt.old, tt.new, tt.old}[tt.kept]; got != want {
				t.Errorf("kept %p; the old one is %p, the new one %p", got, tt.old, tt.new)
			}
		})
	}
}

// A page that was read during a reload is not kept, and the order is unclear only if it may
// have been read after the reload.
func TestReadsDuringAReloadAreNotKept(t *testing.T) {
	start := time.Now()
	at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Minute) }
	k := store.Key{Text: "h/"}
	m := testMemory(t, start)
	f := new(flight)
	fs := newFlights(new(activity))
	fly(t, fs, k, f)
	fs.Invalidate(k, at(2))
	for _, tt := range []struct {
		read  page.Interval
		clear bool
	}{
		{page.Interval{Began: at(0), Ended: at(1)}, true},
		{page.Interval{Began: at(1), Ended: at(3)}, false},
	} {
		if clear := m.put(page.New(k, store.Entry{Version: 1}, store.PurgeState{}, tt.read, nil, new(page.View)), f); clear != tt.clear {
			t.Errorf("%v: clear: %v, want %v", tt.read, clear, tt.clear)
		}
		if m.get(k) != nil {
			t.Errorf("%v was kept", tt.read)
		}
	}
}
