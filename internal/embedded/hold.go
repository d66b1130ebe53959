package embedded

import (
	"context"
	"errors"
	"sync"
)

// maxHeld bounds the deletions that wait, and so memory and what the disk may exceed its bound by.
const maxHeld = 1 << 18

// ErrHeld means that deletions of bodies are held already.
var ErrHeld = errors.New("another backup or check of the folder is in progress")

// errManyHeld ends a hold.
var errManyHeld = errors.New("too many bodies were to be deleted during the backup; try again when fewer pages change")

// held is the deletions that wait for the end of a hold.
type held struct {
	mu   sync.Mutex
	hold *Hold               // guarded by mu: nil if there is none
	keys map[string]struct{} // guarded by mu
}

// add reports whether a deletion has to wait, and notes it then.
func (h *held) add(key string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hold == nil {
		return false
	}
	if len(h.keys) >= maxHeld {
		h.hold.cancel(errManyHeld)
		return false
	}
	h.keys[key] = struct{}{}
	return true
}

// A Hold keeps all bodies of a [Disk]: deletions wait until its release. No row refers to such a body any more,
// so that it makes no difference to readers.
type Hold struct {
	disk   *Disk
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// Hold begins a hold. If too many deletions wait, its context is done, and they are made.
// [ErrHeld]: there is one already. The caller must release it.
func (d *Disk) Hold(ctx context.Context) (*Hold, error) {
	d.held.mu.Lock()
	defer d.held.mu.Unlock()
	if d.held.hold != nil {
		return nil, ErrHeld
	}
	h := &Hold{disk: d}
	h.ctx, h.cancel = context.WithCancelCause(ctx)
	d.held.hold, d.held.keys = h, make(map[string]struct{})
	return h, nil
}

// Context returns a context that is done once the hold does not keep all bodies any more.
func (h *Hold) Context() context.Context { return h.ctx }

// Release ends the hold and makes the deletions that have waited. What fails is garbage, which the next
// collection deletes.
func (h *Hold) Release() {
	d := h.disk
	d.held.mu.Lock()
	keys := d.held.keys
	d.held.hold, d.held.keys = nil, nil
	d.held.mu.Unlock()
	h.cancel(nil)
	for key := range keys {
		_ = d.Delete(context.WithoutCancel(h.ctx), key)
	}
}
