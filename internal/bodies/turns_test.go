package bodies

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/facetheory/isr/internal/guard"
)

// The newest read goes first, one that gives up takes no turn, and the oldest of a full queue
// gives up.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := &turns{free: 2}
		var begun []int
		results := make(map[int]error)
		begin := func(ctx context.Context, i int) {
			go func() {
				err := turns.acquire(ctx)
				if results[i] = err; err == nil {
					begun = append(begun, i)
				}
			}()
			synctest.Wait()
		}
		leaving, leave := context.WithCancel(t.Context())
		for i := range 6 {
			ctx := t.Context()
			if i == 4 {
				ctx = leaving
			}
			begin(ctx, i)
		}
		leave()
		synctest.Wait()
		for range 6 {
			turns.release()
			synctest.Wait()
		}
		if want := []int{0, 1, 5, 3, 2}; !slices.Equal(begun, want) || !errors.Is(results[4], context.Canceled) || turns.free != 3 { // of 2, and one too many was ended
			t.Errorf("begun: %v, want %v; %v; %d are free", begun, want, results[4], turns.free)
		}
		turns.free, begun = 0, nil
		for i := range maxWaiting + 1 {
			begin(t.Context(), i)
		}
		if !errors.Is(results[0], guard.ErrSlow) || len(turns.waiting) != maxWaiting {
			t.Errorf("the oldest of a full queue: %v; %d are waiting", results[0], len(turns.waiting))
		}
		for range maxWaiting {
			turns.release()
			synctest.Wait()
		}
		if len(begun) != maxWaiting {
			t.Errorf("%d have begun", len(begun))
		}
	})
}
