package isr

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/facetheory/isr/internal/guard"
)

// maxFillQueue bounds how many searches wait to read a body.
const maxFillQueue = 1024

// fills bounds how many bodies this process reads from the store at once. A process that starts
// with an empty memory tier would otherwise fetch and verify bodies by the hundred, and the hits
// that it has would wait for the processor.
//
// The newest search goes first: the visitors of the oldest have waited longest, and are most
// likely to be served without the store (see Config.StoreTimeout) or to be gone. If the queue is
// full, the oldest gives up.
type fills struct {
	mu      sync.Mutex
	free    int          // guarded by mu
	waiting []chan error // guarded by mu: the newest is the last; each has room for one element
}

// begin waits until a body may be read. The caller calls end after that. Errors wrap
// guard.ErrSlow, or are the cause of the context's end.
func (f *fills) begin(ctx context.Context) error {
	f.mu.Lock()
	if f.free > 0 {
		f.free--
		f.mu.Unlock()
		return nil
	}
	if len(f.waiting) == maxFillQueue {
		f.waiting[0] <- fmt.Errorf("%d newer reads of bodies are waiting: %w", maxFillQueue, guard.ErrSlow)
		f.waiting = slices.Delete(f.waiting, 0, 1)
	}
	turn := make(chan error, 1)
	f.waiting = append(f.waiting, turn)
	f.mu.Unlock()
	select {
	case err := <-turn:
		return err
	case <-ctx.Done():
		f.leave(turn)
		return context.Cause(ctx)
	}
}

// end lets the newest of the waiting searches begin.
func (f *fills) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := len(f.waiting) - 1
	if last < 0 {
		f.free++
		return
	}
	f.waiting[last] <- nil
	f.waiting = slices.Delete(f.waiting, last, last+1)
}

// leave gives up a place in the queue, or the turn that has come at the same moment.
func (f *fills) leave(turn chan error) {
	f.mu.Lock()
	at := slices.Index(f.waiting, turn)
	if at >= 0 {
		f.waiting = slices.Delete(f.waiting, at, at+1)
	}
	f.mu.Unlock()
	if at < 0 && <-turn == nil {
		f.end()
	}
}
