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
	if p == nil || m.reloads.tooOld(p.read.began) {
		return nil // dropAll may have passed by while it was put
	}
	return p
}

// put keeps a page unless what is there is newer, or was read after the page was
// reloaded. It is not clear if nobody can tell whether it is the newer one, as with
// readings that overlap and differ (versions do not tell, since they begin anew
// where another service has replaced the row): then the page is to be reloaded.
func (m *memory) put(p *page) (clear bool) {
	if m.pages == nil {
		return true
	}
	clear = true
	m.pages.Compute(p.key, func(old *page, found bool) (*page, otter.ComputeOp) {
		// Asked under the lock of the key, which drop takes after the reload was
		// recorded: either this sees the reload, or drop sees the page.
		switch {
		case !m.reloads.allows(p.key, p.read.began):
			clear = !m.reloads.crossed(p.key, p.read)
		case !found, old.read.before(p.read):
			return p, otter.WriteOp
		case p.read.before(old.read):
		case sameEntry(&old.entry, &p.entry):
			if p.cover.Seq >= old.cover.Seq {
				return p, otter.WriteOp
			}
		default:
			clear = false
		}
		return old, otter.CancelOp
	})
	return clear
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

// A reading is when the store was asked, or told, what an entry is: at some moment
// between its beginning and its end that was the current one. Both are moments of
// this process's monotonic clock.
type reading struct{ began, ended time.Time }

// before says that whatever r saw is not newer than what other saw.
func (r reading) before(other reading) bool { return !r.ended.After(other.began) }

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
