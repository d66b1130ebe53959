package simulator

import (
	"context"
	"errors"
	"hash/fnv"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// In some worlds processes are each other's peers. Their messages are hints, so these peers
// lie, are slow, or are dead, as the seed decides, and no invariant is weaker for that.

// wires are the processes that peers reach, by the addresses of their nodes. The zero value has
// none. It is safe for concurrent use.
type wires struct {
	mu   sync.Mutex
	ends map[netip.AddrPort]*wire // guarded by mu
	said map[string]int           // guarded by mu: the counts of the report
}

// count counts the messages of a process to another one.
func (ws *wires) count(what string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.said == nil {
		ws.said = make(map[string]int)
	}
	ws.said[what]++
}

// report adds what was counted to the counts of a world.
func (ws *wires) report(counts map[string]int) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	maps.Copy(counts, ws.said)
}

// A wire is the end of one process.
type wire struct {
	all     *wires
	life    *life
	at      netip.AddrPort
	mu      sync.Mutex
	said    map[string]int // guarded by mu: how often it has asked another one about a page, or told it of the log
	lies    int            // guarded by mu: of bodies
	another []byte         // guarded by mu: the last body of which it lied; nil if there was none
}

var _ isr.Peers = (*wire)(nil)

// end returns the end of a process of the nth node.
func (ws *wires) end(l *life, n int) *wire {
	at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(n + 1)}), 7946)
	return &wire{all: ws, life: l, at: at, said: make(map[string]int)}
}

// connect makes a process that has its cache reachable, and replaces its predecessor.
func (ws *wires) connect(end *wire) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.ends == nil {
		ws.ends = make(map[netip.AddrPort]*wire)
	}
	ws.ends[end.at] = end
}

// reach returns a process that lives, or nil.
func (ws *wires) reach(at netip.AddrPort) *life {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if end := ws.ends[at]; end != nil && !end.life.isDead() {
		return end.life
	}
	return nil
}

// A manner is how a process behaves towards a peer, this time.
type manner int

const (
	honest manner = iota
	lying         // its answers are false
	tardy         // its answers are late
	silent        // it never answers
	dead          // nothing listens
	manners
)

// slowness is how late tardy peers are.
const slowness = 3 * time.Second

// choose returns how the peers of a process behave, by the seed and by what is asked.
func (e *wire) choose(at netip.AddrPort, what string) manner {
	e.mu.Lock()
	defer e.mu.Unlock()
	asked := at.String() + " " + what
	e.said[asked]++
	h := fnv.New64a()
	_, _ = h.Write([]byte(strconv.FormatUint(e.life.w.seed, 10) + " " + e.life.name + " " + asked + " " + strconv.Itoa(e.said[asked]))) // it cannot fail
	// The last bits of FNV are poor.
	return manner(h.Sum64() >> 16 % uint64(manners))
}

// Address implements [isr.Peers].
func (e *wire) Address() netip.AddrPort { return e.at }

// AwaitLease implements [isr.Peers].
func (e *wire) AwaitLease(ctx context.Context, at netip.AddrPort, k store.Key) bool {
	ctx, cancel := context.WithTimeout(ctx, e.life.w.pace.of(25*time.Second))
	defer cancel()
	to := e.all.reach(at)
	switch m := e.choose(at, k.Text); {
	case to == nil || m == dead || !e.hop(ctx, at):
		return false
	case m == lying:
		e.all.count("peer lied of a lease")
		return true
	case m == silent:
		<-ctx.Done()
		return false
	case m == tardy:
		ended := to.cache.AwaitFlight(ctx, k)
		return e.dawdle(ctx) && ended
	}
	ended := to.cache.AwaitFlight(ctx, k) && e.hop(ctx, at)
	if ended {
		e.all.count("peer said that a lease has ended")
	}
	return ended
}

// hop lets a message travel, and reports whether ctx goes on. Each pair of nodes has a latency of its own: the seed
// would not decide which of two messages that arrive together is first.
func (e *wire) hop(ctx context.Context, at netip.AddrPort) bool {
	from, to := e.at.Addr().As4()[3], at.Addr().As4()[3]
	return sleep(ctx, time.Millisecond+time.Duration(from)*170*time.Microsecond+time.Duration(to)*13*time.Microsecond)
}

// dawdle reports whether ctx goes on after a while.
func (e *wire) dawdle(ctx context.Context) bool { return sleep(ctx, e.life.w.pace.of(slowness)) }

// sleep reports whether ctx goes on after some time.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// ReadBody implements [isr.Peers].
func (e *wire) ReadBody(ctx context.Context, at netip.AddrPort, b store.PeerBody) ([]byte, error) {
	to, m := e.all.reach(at), e.choose(at, "the body of "+b.Key.Text)
	if to == nil || m == dead || !e.hop(ctx, at) {
		return nil, errors.New("nothing listens")
	}
	if m == silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	body := to.cache.LocalBody(ctx, b)
	if m == lying {
		return e.lie(body, b), nil
	}
	if !e.hop(ctx, at) || m == tardy && !e.dawdle(ctx) {
		return nil, ctx.Err()
	}
	if body == nil {
		return nil, store.ErrNotFound
	}
	e.all.count("peer sent a body")
	return body, nil
}

// lie returns something else than a body that it was asked for, if it has another: bytes that are
// wrong, fewer, more, or another body, in turns.
func (e *wire) lie(body []byte, b store.PeerBody) []byte {
	e.all.count("peer lied of a body")
	e.mu.Lock()
	defer e.mu.Unlock()
	another := e.another
	if body != nil {
		e.another = body
	}
	e.lies++
	switch e.lies % 4 {
	case 0:
		return make([]byte, b.Length)
	case 1:
		return make([]byte, b.Length/2)
	case 2:
		return append(slices.Clone(body), make([]byte, b.Length+1)...)
	}
	return another
}

// Tell implements [isr.Peers].
func (e *wire) Tell(all []netip.AddrPort, seq int64) {
	for _, at := range all {
		to, m := e.all.reach(at), e.choose(at, "the log")
		if to == nil || m == silent || m == dead {
			continue
		}
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), e.life.w.pace.of(2*slowness))
			defer cancel()
			if !e.hop(ctx, at) || m == tardy && !e.dawdle(ctx) {
				return
			}
			to.cache.HearPeer(e.at)
			if !e.hop(ctx, at) {
				return
			}
			said := seq
			if m == lying {
				said += 1000
			}
			if to.cache.HearChange(ctx, said) == nil {
				e.all.count("peer heard of a change")
			} // else it polls anyway
		}()
	}
}
