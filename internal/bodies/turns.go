package bodies

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/facetheory/isr/internal/guard"
)

// maxWaiting bounds how many reads of bodies wait.
const maxWaiting = 1024

// turns are a semaphore that bounds how many bodies this process reads from the store at once. A process
// that starts with an empty memory tier would otherwise fetch and verify bodies by the hundred, and the
// hits that it has would wait for the processor.
//
// It is last in, first out: the visitors of the oldest read have waited longest, and are most likely to
// be served without the store (see Config.StoreTimeout) or to be gone. If the queue is full, the oldest
// gives up.
type turns struct {
	mu      sync.Mutex
	free    int          // guarded by mu
	waiting []chan error // guarded by mu: the newest is the last; each has room for one element
}

// acquire waits until a body may be read. The caller calls release after that. Errors wrap
// guard.ErrSlow, or are the cause of the context's end.
func (t *turns) acquire(ctx context.Context) error {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return nil
	}
	if len(t.waiting) == maxWaiting {
		t.waiting[0] <- fmt.Errorf("%d newer reads of bodies are waiting: %w", maxWaiting, guard.ErrSlow)
		t.waiting = slices.Delete(t.waiting, 0, 1)
	}
	turn := make(chan error, 1)
	t.waiting = append(t.waiting, turn)
	t.mu.Unlock()
	select {
	case err := <-turn:
		return err
	case <-ctx.Done():
		t.leave(turn)
		return context.Cause(ctx)
	}
}

// release lets the newest of the waiting reads begin.
func (t *turns) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := len(t.waiting) - 1
	if last < 0 {
		t.free++
		return
	}
	t.waiting[last] <- nil
	t.waiting = slices.Delete(t.waiting, last, last+1)
}

// leave gives up a place in the queue, or the turn that has come at the same moment.
func (t *turns) leave(turn chan error) {
	t.mu.Lock()
	at := slices.Index(t.waiting, turn)
	if at >= 0 {
		t.waiting = slices.Delete(t.waiting, at, at+1)
	}
	t.mu.Unlock()
	if at < 0 && <-turn == nil {
		t.release()
	}
}
