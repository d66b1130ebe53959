package budget

import (
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func addr(n int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(n)}), 32)
}

func newBudget(renders, queue int) *Budget {
	return New(Config{Renders: renders, Queue: queue, Logger: slog.New(slog.DiscardHandler)})
}

// has reports whether the turn has come.
func has(t *Turn) bool {
	select {
	case <-t.Ready():
		return t.Displaced() == nil
	default:
		return false
	}
}

// A run is a random history of a budget.
type run struct {
	b         *Budget
	rendering []*Turn
	waiting   []*Turn
}

// settle sorts the turns by what has become of them, and returns those that were displaced.
func (r *run) settle() (displaced []*Turn) {
	var left []*Turn
	for _, t := range r.waiting {
		switch {
		case has(t):
			r.rendering = append(r.rendering, t)
		case t.displaced:
			t.Leave(ErrNoVerdict)
			displaced = append(displaced, t)
		default:
			left = append(left, t)
		}
	}
	r.waiting = left
	return displaced
}

// load counts the turns of a client, of those given.
func load(turns []*Turn, client netip.Prefix, visitors bool) (n int) {
	for _, t := range turns {
		if t.payer == client && !(visitors && t.class == regeneration) {
			n++
		}
	}
	return n
}

// fault returns what is wrong with the budget, if anything is.
func (r *run) fault(displaced []*Turn) string {
	b := r.b
	if s := b.State(); s.Rendering != len(r.rendering) || s.Waiting != len(r.waiting) {
		return fmt.Sprintf("%+v, with %d turns and %d places", s, len(r.rendering), len(r.waiting))
	}
	regenerations := 0
	for _, t := range append(r.waiting, r.rendering...) {
		if t.class == regeneration && t.place == nil {
			regenerations++
		}
	}
	free := b.renders - len(r.rendering)
	for _, t := range r.waiting {
		n := load(r.rendering, t.payer, false)
		idle := n == 0 || 3*(free-1) >= n+1
		if t.class == regeneration {
			idle = idle && (regenerations == 0 || 3*(free-1) >= regenerations+1)
		}
		if free > 0 && idle {
			return fmt.Sprintf("%d turns are idle while a client with %d waits", free, n)
		}
	}
	for _, lost := range displaced {
		if lost.class != regeneration {
			for _, t := range r.waiting {
				if t.class == regeneration {
					return "a visitor was displaced, and a regeneration was not"
				}
			}
		}
		if len(r.waiting) < min(b.room/2, (3*b.room+3)/4) {
			return "a page was displaced, and there is room"
		}
	}
	if len(b.clients) > len(r.rendering)+len(r.waiting) {
		return fmt.Sprintf("%d clients are kept for %d turns and places", len(b.clients), len(r.rendering)+len(r.waiting))
	}
	return ""
}

// No turn is idle while somebody may render, the queue is bounded, regenerations leave it first,
// and nothing is kept of clients who have nothing.
func TestWorkIsConserved(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		renders, queue := rapid.IntRange(1, 20).Draw(rt, "renders"), rapid.IntRange(1, 30).Draw(rt, "queue")
		steps := rapid.SliceOfN(rapid.Uint32(), 1, 150).Draw(rt, "steps")
		var fault string
		synctest.Test(t, func(*testing.T) {
			r := &run{b: newBudget(renders, queue)}
			for i, n := range steps {
				if fault = r.step(n); fault != "" {
					fault = fmt.Sprintf("after %d steps: %s", i, fault)
					return
				}
			}
			for len(r.rendering)+len(r.waiting) > 0 {
				r.leave(0)
			}
			if len(r.b.clients) > 0 || r.b.young.Len() > 0 || r.b.stale.rendering > 0 {
				fault = "something is left at the end"
			}
		})
		if fault != "" {
			rt.Fatal(fault)
		}
	})
}

// leave ends a turn, or gives up a place.
func (r *run) leave(n int) {
	all := append(r.rendering, r.waiting...)
	t := all[n%len(all)]
	r.rendering, r.waiting = without(r.rendering, t), without(r.waiting, t)
	t.Leave(nil)
	r.settle()
}

func without(turns []*Turn, t *Turn) (left []*Turn) {
	for _, other := range turns {
		if other != t {
			left = append(left, other)
		}
	}
	return left
}

// step takes one random step.
func (r *run) step(n uint32) string {
	kind, client, which := n%8, addr(int(n/8%5)), int(n/64%1000)
	if n/64%11 == 0 {
		client = netip.Prefix{}
	}
	switch {
	case kind == 0:
		time.Sleep(time.Duration(which) * 3 * time.Millisecond)
	case kind == 1 && len(r.waiting) > 0:
		r.waiting[which%len(r.waiting)].Charge(client)
	case kind == 2 && len(r.waiting) > 0:
		r.waiting[which%len(r.waiting)].Await()
	case kind <= 4 && len(r.rendering)+len(r.waiting) > 0:
		r.leave(which)
	default:
		p := Page{Known: which%2 == 0, Yielding: which%3 == 0}
		t, err := r.b.Enter(p, client)
		if err == nil {
			r.waiting = append(r.waiting, t)
		} else if len(r.waiting) < r.b.room/2 {
			return "a page was refused, and there is room"
		}
	}
	displaced := r.settle()
	if len(r.waiting) > r.b.room {
		return fmt.Sprintf("%d places of %d", len(r.waiting), r.b.room)
	}
	if r.b.defaulted[netip.Prefix{}] != (time.Time{}) {
		return "pages without a client were found to be in default"
	}
	return r.fault(displaced)
}

// A client with one page gets at most the third turn that ends, however much another client has in
// the queue, and for any number of turns.
func TestLightClientWaitsBriefly(t *testing.T) {
	for _, renders := range []int{1, 2, 3, 4, 16} {
		for _, page := range []Page{{}, {Known: true}} {
			synctest.Test(t, func(t *testing.T) {
				r := &run{b: newBudget(renders, 64)}
				heavy := func() {
					for i := range 100 {
						if turn, err := r.b.Enter(Page{Known: i%2 == 0}, addr(1)); err == nil {
							r.waiting = append(r.waiting, turn)
						}
					}
					r.settle()
				}
				heavy()
				for i := range 20 {
					light, err := r.b.Enter(page, addr(2+i%2))
					if err != nil {
						t.Fatalf("with %d turns: %v", renders, err)
					}
					ends := 0
					for ; !has(light); ends++ {
						r.leave(0)
						heavy()
					}
					if ends > 3 {
						t.Errorf("with %d turns, a light client waited until %d had ended", renders, ends)
					}
					light.Leave(nil)
					r.settle()
				}
			})
		}
	}
}

// A visitor does not wait for regenerations in the queue, of the same client or another, and takes
// the place of one if the queue is full.
func TestRegenerationsComeLast(t *testing.T) {
	for _, visitor := range []netip.Prefix{addr(1), addr(2), {}} {
		synctest.Test(t, func(t *testing.T) {
			r := &run{b: newBudget(1, 4)}
			for range 5 {
				if turn, err := r.b.Enter(Page{Known: true, Yielding: true}, addr(1)); err == nil {
					r.waiting = append(r.waiting, turn)
				}
			}
			r.settle()
			var visits []*Turn
			for range 3 {
				turn, err := r.b.Enter(Page{}, visitor)
				if err != nil {
					t.Fatal(err)
				}
				visits = append(visits, turn)
			}
			if lost := r.settle(); len(lost) != 1 || len(r.waiting) != 1 {
				t.Errorf("%d regenerations were displaced, and %d wait; want 1 and 1", len(lost), len(r.waiting))
			}
			r.rendering[0].Leave(nil)
			for _, turn := range visits {
				if !has(turn) {
					t.Error("a visitor waits for a regeneration")
				}
				turn.Leave(nil)
			}
			if !has(r.waiting[0]) {
				t.Error("the regeneration got no turn after the visitors")
			}
		})
	}
}

// A place that a visitor joins is no longer a regeneration's.
func TestAwaitedRegenerationIsAVisitors(t *testing.T) {
	b := newBudget(1, 4)
	first, _ := b.Enter(Page{})
	one, _ := b.Enter(Page{Known: true, Yielding: true}, addr(1))
	other, _ := b.Enter(Page{Known: true, Yielding: true}, addr(1))
	other.Await()
	first.Leave(nil)
	if has(one) || !has(other) {
		t.Error("a visitor waits for a regeneration")
	}
}

// churn renders pages of one client for a time, as many at once as the budget allows, each taking
// as long, and returns how many there were at most. It leaves the turns as they are.
func churn(r *run, client netip.Prefix, p Page, took, lasting time.Duration) (most int) {
	for begin := time.Now(); time.Since(begin) < lasting; {
		for len(r.waiting) < 2 {
			turn, err := r.b.Enter(p, client)
			if err != nil {
				break
			}
			r.waiting = append(r.waiting, turn)
			r.settle()
		}
		most = max(most, len(r.rendering))
		time.Sleep(took / time.Duration(len(r.rendering)))
		oldest := r.rendering[0]
		r.rendering = r.rendering[1:]
		oldest.Leave(nil)
		r.settle()
	}
	return most
}

// One client gets all turns while its renders are quick, also for regenerations, and leaves a
// reserve while they are slow. One that borrowed the reserve, and did not give it back, gets none
// for a long while.
func TestReserve(t *testing.T) {
	for _, p := range []Page{{Known: true}, {Known: true, Yielding: true}} {
		synctest.Test(t, func(t *testing.T) {
			r := &run{b: newBudget(16, 64)}
			if n := churn(r, addr(1), p, 5*time.Second, time.Minute); n != 12 {
				t.Errorf("one client has %d turns for slow renders", n)
			}
			if n := churn(r, addr(1), p, 500*time.Millisecond, time.Minute); n != 16 {
				t.Errorf("one client has %d turns for quick renders", n)
			}
			// All 16 hang.
			time.Sleep(30 * time.Second)
			for len(r.rendering) > 0 {
				r.leave(0)
			}
			if n := churn(r, addr(1), p, 500*time.Millisecond, 9*time.Minute); n != 12 {
				t.Errorf("one client has %d turns after it held the reserve for half a minute", n)
			}
			if n := churn(r, addr(1), p, 500*time.Millisecond, 2*time.Minute); n != 16 {
				t.Errorf("one client has %d turns for ever after it held the reserve", n)
			}
		})
	}
}

// Clients who arrive find turns although others let theirs hang.
func TestReserveIsForNewcomers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &run{b: newBudget(16, 64)}
		for client, want := range []int{12, 3, 1, 0} {
			got := 0
			for range 16 {
				if turn, err := r.b.Enter(Page{}, addr(client)); err == nil && has(turn) {
					got++
				}
			}
			if got != want {
				t.Errorf("client %d got %d turns, want %d", client, got, want)
			}
		}
	})
}
