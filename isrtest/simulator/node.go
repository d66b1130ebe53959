package simulator

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/store"
)

// A node is a machine: it has a clock, and runs one process after the other.
type node struct {
	name string
	skew time.Duration
	runs int // processes so far
	life *life
	cut  cut // guarded by gate.mu
}

// now is what the node's clock shows.
func (n *node) now() time.Time { return time.Now().Add(n.skew) }

// A life is one process of a node, from its start to its crash.
type life struct {
	w       *world
	node    *node
	name    string
	cache   *isr.Cache
	handler http.Handler
	meta    store.MetaStore // as the cache sees it
	bodies  store.BodyStore // as the cache sees it
	dead    chan struct{}   // closed by a crash

	polled atomic.Bool // the log was read, or could not be

	frozen bool      // guarded by gate.mu; written by the driver
	until  time.Time // the driver's own: when it thaws
	thawed time.Time // the driver's own: when it did last
	froze  time.Time // the driver's own: when it last did
	leased int64     // the driver's own: until when it held a lease when it froze, in epoch seconds
	failed time.Time // when a call failed last, but for its conditions; guarded by gate.mu

	log hearing // the driver's own

	opening map[string]int // bodies that were asked for, less the answers; the driver's own

	seqRead time.Time // when a read of SEQ was answered last; guarded by gate.mu
	refused []string  // the partitions of a rollback that SEQ has refused, until somebody is answered; guarded by gate.mu

	collecting int // collections of garbage that are under way; the driver's own

	asking  int        // regenerations and assertions that somebody waits for; the driver's own
	closing chan error // holds the answer to Close

	pages map[*page]*view // as made by start; the views are guarded by world.mu
}

// A view is what one process has to do with one page.
type view struct {
	born      int          // the generation that was current when the process started
	served    int          // the newest generation that a request of it has ended with
	rendered  []*rendering // as far as the driver has seen
	purges    []warning    // ascending; the first is what was purged when the process started
	lease     *grant       // that the process was told last that it has; the driver's own
	read      int          // the generation that was current when it read the page last
	readAt    time.Time    // when that was
	withdrawn bool         // its origin has said that the page is not to be stored; guarded by world.mu
	reloaded  time.Time    // when it may have had its flights of the page retired last
	kept      string       // the key of the body that it has in memory, if that is known; the driver's own
	asked     bool         // somebody has wanted the page
	unpin     bool         // somebody has asked for a regeneration that unpins
	waiting   int          // visitors who have no answer yet
	asserting int          // rollbacks and pins that somebody waits for
	forcing   bool         // somebody waits for a regeneration
	forced    int          // how many renderings there were when that began
}

// start runs a new process on the node.
func (w *world) start(n *node) error {
	n.runs++
	l := &life{
		w: w, node: n, name: fmt.Sprintf("%s.%d", n.name, n.runs),
		dead: make(chan struct{}), pages: make(map[*page]*view), opening: make(map[string]int),
	}
	for _, p := range w.pages {
		l.pages[p] = &view{born: len(p.history) - 1, served: -1, purges: []warning{{seq: p.hardSeq}}}
	}
	var api dynamostore.API = &gatedTable{life: l, engine: w.answering}
	var bodies store.BodyStore = &gatedShelf{life: l}
	bug := w.bug
	if bug.API != nil {
		api = bug.API(api)
	}
	if bug.Bodies != nil {
		bodies = bug.Bodies(bodies)
	}
	l.log.since = time.Now()
	quiet := slog.New(slog.DiscardHandler)
	random := lockedRandom(w.rng.Uint64())
	real, err := dynamostore.New(api, w.table, dynamostore.Config{
		Owner: l.name, Now: n.now, Random: random, Logger: quiet,
		CallTimeout: w.pace.callTimeout, SettleTimeout: w.pace.settleTimeout, LogLife: w.pace.logLife,
	})
	if err != nil {
		return err
	}
	var meta store.MetaStore = real
	if bug.Meta != nil {
		meta = bug.Meta(meta, bodies)
	}
	l.bodies = bodies
	l.meta = &witness{MetaStore: meta, life: l, tokens: make(map[store.Lease]string)}
	l.cache, err = isr.New(l.meta, bodies, isr.Config{
		Memory: 1 << 20, Lease: w.pace.lease(), RenderTimeout: w.pace.of(renderTimeout), Now: n.now, Logger: quiet, Random: random,
		Poll: w.pace.poll(),
		// Calls take as long as the driver likes: only those that fail are given up.
		StoreTimeout: 24 * time.Hour, LogLife: w.pace.logLife,
	})
	if err != nil {
		return err
	}
	l.handler = l.cache.Handler(w.route, &origin{life: l})
	n.life = l
	return nil
}

// lockedRandom is a source of randomness that is safe for concurrent use.
func lockedRandom(seed uint64) func() uint64 {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, seed))
	return func() uint64 {
		mu.Lock()
		defer mu.Unlock()
		return rng.Uint64()
	}
}

func (l *life) isDead() bool {
	select {
	case <-l.dead:
		return true
	default:
		return false
	}
}

// mayVisit keeps visitors apart from those who ask for a rollback of the same page before
// the process has read the log (see mayAssert), too.
func (l *life) mayVisit(p *page) bool {
	v := l.pages[p]
	return v.mayVisit() && (l.polled.Load() || v.asserting == 0)
}

// mayVisit and mayForce keep visitors apart from those who ask for a regeneration
// of the same page at the same process, until that is under way: of both, who wait
// for the end of one flight, no seed says who begins the next. In real time it says
// nothing of the kind anyway.
func (v *view) mayVisit() bool { return !v.forcing || len(v.rendered) > v.forced }

func (w *world) mayForce(l *life, p *page) bool {
	v := l.pages[p]
	return !v.forcing && (v.waiting == 0 || !w.pace.ordered())
}

// mayAssert: a rollback has the next visitor begin another flight, and all flights
// wait until the process has read the log for the first time; which of two goes
// first then is not the seed's to say either.
func (l *life) mayAssert(p *page) bool {
	v := l.pages[p]
	return l.polled.Load() || !v.asked
}

// force notes that somebody waits for a regeneration.
func (v *view) force() { v.asked, v.forcing, v.forced = true, true, len(v.rendered) }

// unheard keeps a goroutine of a dead process until it gives up by itself, or for
// the afterlife if it never would.
func (l *life) unheard(ctx context.Context) outcome {
	ctx, cancel := context.WithTimeout(ctx, l.w.pace.afterlife)
	defer cancel()
	<-ctx.Done()
	return outcome{err: errCrashed}
}

// crash ends a node's process, whose requests may still arrive, and starts the
// next one.
func (w *world) crash(n *node) {
	w.log("%s crashes", n.life.name)
	w.end(n.life)
	if err := w.start(n); err != nil {
		w.violate("a node starts", "%s: %v", n.name, err)
	}
}

// end kills a process. Its goroutines see nothing of the world any more, and
// nobody sees anything of them; closing the cache makes them end.
func (w *world) end(l *life) {
	w.gate.orphan(l)
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	w.ended.Go(func() { _ = l.cache.Close(gone) })
}

// freeze stops a process for longer than a lease: all of its goroutines, as far
// as anybody can tell. Some that have rendered a page, and are about to publish it, take
// the whole fleet with them, as the machine that they all run on does, so that nobody
// takes the lease over.
func (w *world) freeze(l *life) {
	d := w.pace.of(LeaseTime + 2*time.Second + time.Duration(w.rng.Int64N(int64(2*LeaseTime))))
	if storing := w.storing(); storing != nil && w.rng.IntN(2) == 0 {
		for _, n := range w.awake() {
			w.stop(n.life, d)
		}
		return
	}
	w.stop(l, d)
}

// storing is a process that has rendered a page and is storing its body, nil if there
// is none.
func (w *world) storing() *life {
	for _, c := range w.gate.choosable(time.Now()) {
		if c.op == "body put" && !c.gone.Load() {
			return c.life
		}
	}
	return nil
}

// stop stops a process.
func (w *world) stop(l *life, d time.Duration) {
	w.log("%s freezes for %.3fs", l.name, d.Seconds())
	l.until = time.Now().Add(d)
	l.froze, l.leased = time.Now(), w.leaseEnd(l)
	w.gate.freeze(l, true)
}

// thaw continues those whose time has come, or all.
func (w *world) thaw(all bool) {
	for _, n := range w.nodes {
		if n.life.frozen && (all || !time.Now().Before(n.life.until)) {
			w.log("%s thaws", n.life.name)
			w.gate.freeze(n.life, false)
			n.life.thawed = time.Now()
			if end := n.life.leased; end > 0 && end <= n.now().Unix() {
				w.counts["thaw after the lease"]++
			}
			if time.Since(n.life.froze) > w.pace.logLife/2 {
				w.counts["thaw after half the log's life"]++
			}
		}
	}
}

// leaseEnd is when the last lease that a process holds ends, in epoch seconds; 0 if it
// holds none.
func (w *world) leaseEnd(l *life) int64 {
	var end int64
	for _, p := range w.pages {
		if held := p.rows.lock(); held != nil && w.holderOf(held) == l {
			end = max(end, held.expires)
		}
	}
	return end
}

// awake are the nodes whose processes run.
func (w *world) awake() []*node {
	var awake []*node
	for _, n := range w.nodes {
		if !n.life.frozen {
			awake = append(awake, n)
		}
	}
	return awake
}
