package isr

import (
	"fmt"
	"time"

	"github.com/maypok86/otter/v2"
)

// A memory is the tier of pages that this process keeps ready, bounded by their
// weight in bytes. It changes how fast an answer is, never which one.
type memory struct {
	pages *otter.Cache[Key, *page] // nil: nothing is kept
}

func newMemory(bytes int64) (*memory, error) {
	if bytes <= 0 {
		return &memory{}, nil
	}
	pages, err := otter.New(&otter.Options[Key, *page]{
		MaximumWeight: uint64(bytes),
		Weigher:       func(_ Key, p *page) uint32 { return p.weight() },
	})
	if err != nil {
		return nil, fmt.Errorf("the memory tier: %w", err)
	}
	return &memory{pages: pages}, nil
}

func (m *memory) get(k Key) *page {
	if m.pages == nil {
		return nil
	}
	p, _ := m.pages.GetIfPresent(k)
	return p
}

// put keeps a page unless what is there is newer: of two reads that cross, the
// older must not win, however late it arrives.
func (m *memory) put(p *page) {
	if m.pages == nil {
		return
	}
	m.pages.Compute(p.key, func(old *page, found bool) (*page, otter.ComputeOp) {
		if found && !p.supersedes(old) {
			return old, otter.CancelOp
		}
		return p, otter.WriteOp
	})
}

// supersedes orders two readings of one key: by the fence where both have one,
// by the time at which the reading began otherwise.
func (p *page) supersedes(old *page) bool {
	if p.entry.Version > 0 && old.entry.Version > 0 && p.entry.Version != old.entry.Version {
		return p.entry.Version > old.entry.Version
	}
	return !p.readAt.Before(old.readAt)
}

// remembered is how long a refusal is remembered.
const remembered = 2 * time.Minute

// maxRemembered bounds the number of keys remembered as refused or failed.
const maxRemembered = 16 << 10

// A shortcut is what the last regeneration of a key came to, where that was no
// page: it saves the next visitors from waiting for the same end.
type shortcut struct {
	until   time.Time
	refused string    // uncacheable, for this reason: straight through
	failed  *response // the renderer's failure, to be shown again meanwhile
}

// shortcuts are those of this process, bounded in number.
type shortcuts struct {
	byKey *otter.Cache[Key, *shortcut]
}

func newShortcuts() (*shortcuts, error) {
	byKey, err := otter.New(&otter.Options[Key, *shortcut]{MaximumSize: maxRemembered})
	if err != nil {
		return nil, fmt.Errorf("the memory of refused pages: %w", err)
	}
	return &shortcuts{byKey: byKey}, nil
}

// get returns a shortcut that still holds, or nil.
func (s *shortcuts) get(k Key, now time.Time) *shortcut {
	c, ok := s.byKey.GetIfPresent(k)
	if !ok || !now.Before(c.until) {
		return nil
	}
	return c
}

func (s *shortcuts) put(k Key, c *shortcut) { s.byKey.Set(k, c) }

func (s *shortcuts) forget(k Key) { s.byKey.Invalidate(k) }
