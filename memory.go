package isr

import (
	"fmt"
	"time"

	"github.com/maypok86/otter/v2"
)

// A memory is the tier of pages that this process keeps ready, bounded by their
// weight in bytes. It changes how fast an answer is, never which one.
type memory struct {
	reloads *reloads
	pages   *otter.Cache[Key, *page] // nil: nothing is kept
}

func newMemory(bytes int64, r *reloads) (*memory, error) {
	if bytes <= 0 {
		return &memory{reloads: r}, nil
	}
	pages, err := otter.New(&otter.Options[Key, *page]{
		MaximumWeight: uint64(bytes),
		Weigher:       func(_ Key, p *page) uint32 { return p.weight() },
	})
	if err != nil {
		return nil, fmt.Errorf("the memory tier: %w", err)
	}
	return &memory{reloads: r, pages: pages}, nil
}

func (m *memory) get(k Key) *page {
	if m.pages == nil {
		return nil
	}
	p, _ := m.pages.GetIfPresent(k)
	if p == nil || m.reloads.tooOld(p.readAt) {
		return nil // dropAll may have passed by while it was put
	}
	return p
}

// put keeps a page unless what is there is newer, or the page was reloaded since:
// of two reads that cross, the older must not win, however late it arrives.
func (m *memory) put(p *page) {
	if m.pages == nil {
		return
	}
	m.pages.Compute(p.key, func(old *page, found bool) (*page, otter.ComputeOp) {
		// Asked under the lock of the key, which drop takes after the reload was
		// recorded: either this sees the reload, or drop sees the page.
		if found && !p.supersedes(old) || !m.reloads.allows(p.key, p.readAt) {
			return old, otter.CancelOp
		}
		return p, otter.WriteOp
	})
}

func (m *memory) drop(k Key) {
	if m.pages != nil {
		m.pages.Invalidate(k)
	}
}

func (m *memory) dropAll() {
	if m.pages != nil {
		m.pages.InvalidateAll()
	}
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
	readAt  time.Time // when the read that led to it began
	until   time.Time
	refused string    // uncacheable, for this reason: straight through
	failed  *response // the renderer's failure, to be shown again meanwhile
}

// shortcuts are those of this process, bounded in number.
type shortcuts struct {
	reloads *reloads
	byKey   *otter.Cache[Key, *shortcut]
}

func newShortcuts(r *reloads) (*shortcuts, error) {
	byKey, err := otter.New(&otter.Options[Key, *shortcut]{MaximumSize: maxRemembered})
	if err != nil {
		return nil, fmt.Errorf("the memory of refused pages: %w", err)
	}
	return &shortcuts{reloads: r, byKey: byKey}, nil
}

// get returns a shortcut that still holds, or nil.
func (s *shortcuts) get(k Key, now time.Time) *shortcut {
	c, ok := s.byKey.GetIfPresent(k)
	if !ok || !now.Before(c.until) || s.reloads.tooOld(c.readAt) {
		return nil
	}
	return c
}

// put remembers a shortcut, unless the page was reloaded since: it would hide the
// page that somebody rolled back to.
func (s *shortcuts) put(k Key, c *shortcut) {
	s.byKey.Compute(k, func(old *shortcut, _ bool) (*shortcut, otter.ComputeOp) {
		if !s.reloads.allows(k, c.readAt) {
			return old, otter.CancelOp
		}
		return c, otter.WriteOp
	})
}

func (s *shortcuts) forget(k Key) { s.byKey.Invalidate(k) }

func (s *shortcuts) forgetAll() { s.byKey.InvalidateAll() }
