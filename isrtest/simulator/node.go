package simulator

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/store"
)

// A node is a machine. It has a clock and runs one process at a time.
type node struct {
	name string
	skew time.Duration
	runs int // processes so far
	life *life
	cut  cut // guarded by gate.mu
}

// now returns the time of the node's clock.
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

	begun   atomic.Bool  // SEQ and the marks were read, or that failed: fills wait for it
	applied atomic.Int64 // the sequence up to which it has applied the log, as it reported

	frozen bool      // guarded by gate.mu; written by the driver
	until  time.Time // owned by the driver: when it thaws
	thawed time.Time // owned by the driver: when it last thawed
	froze  time.Time // owned by the driver: when it last froze
	leased int64     // owned by the driver: the end of its leases when it froze, in epoch seconds
	failed time.Time // when a call last failed, other than by its condition; guarded by gate.mu

	log logState // owned by the driver

	opening map[string]int // open calls by body key; owned by the driver

	unpurged  time.Time // when a purge last failed; guarded by gate.mu
	unread    time.Time // when reading a body last failed; guarded by gate.mu
	opened    time.Time // when a body was last opened; guarded by gate.mu
	marksRead time.Time // when a query of the log or of marks was last answered; guarded by gate.mu
	seqRead   time.Time // when a read of SEQ was last answered; guarded by gate.mu
	released  []item    // values of the conditions of its releases: the tokens of leases; guarded by gate.mu
	refused   []string  // the partitions of a rollback that SEQ has refused, until a caller is answered; guarded by gate.mu

	collecting int // garbage collections in progress; owned by the driver

	asking  int          // regenerations, assertions and purges in progress; owned by the driver
	purging int          // purges in progress; owned by the driver
	own     []*nodePurge // its acknowledged purges; owned by the driver
	born    int64        // the purge sequence when it started
	closing chan error   // receives the result of Close

	pages map[*page]*view // made by start; the views are guarded by world.mu
}

// A view is the state of one page in one process.
type view struct {
	born      int          // the generation that was current when the process started
	served    int          // the newest generation that it has served
	rendered  []*rendering // those that the driver has processed
	purges    []warning    // ascending; the first is the purge state when the process started
	lease     *grant       // the last lease that the process acquired; owned by the driver
	read      int          // the generation that was current at its last read
	readAt    time.Time    // when that read was
	withdrawn bool         // its origin has answered that the page must not be stored; guarded by world.mu
	reloaded  time.Time    // when it may last have retired its flights of the page
	kept      string       // the key of its body in memory, if known; owned by the driver
	asked     bool         // the page was requested
	unpin     bool         // a regeneration that unpins was requested
	waiting   int          // visitors without a response yet
	demanding bool         // one of them has a receipt
	posts     []*post      // the unsafe requests; owned by the driver
	asserting int          // rollbacks and pins in progress
	forcing   bool         // a forced regeneration is in progress
	forced    int          // number of renderings when that began
}

// start runs a new process on the node.
func (w *world) start(n *node) error {
	n.runs++
	l := &life{
		w: w, node: n, name: fmt.Sprintf("%s.%d", n.name, n.runs),
		born: w.readable, dead: make(chan struct{}), pages: make(map[*page]*view), opening: make(map[string]int),
	}
	for _, p := range w.pages {
		l.pages[p] = w.viewAtStart(p)
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
	owner, name := l.name, ""
	var peers isr.Peers
	if w.profile.peers {
		end := w.wires.end(l, slices.Index(w.nodes, n))
		owner, name, peers = store.OwnerWithPeer(l.name, end.at), l.name, end
		defer w.wires.connect(end)
	}
	real, err := dynamostore.New(api, w.table, dynamostore.Config{
		Owner: owner, Now: n.now, Random: random, Logger: quiet,
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
		Poll: w.pace.poll(), Node: name, Peers: peers,
		// Calls may take any time: only those that fail are abandoned.
		StoreTimeout: 24 * time.Hour, LogLife: w.pace.logLife,
	})
	if err != nil {
		return err
	}
	l.handler = l.cache.Handler(w.route, &origin{life: l})
	n.life = l
	return nil
}

// viewAtStart returns what a process that starts now can read of a page.
func (w *world) viewAtStart(p *page) *view {
	v := &view{born: len(p.history) - 1, served: -1, purges: []warning{{seq: p.hardSeq}}}
	if _, torn := w.tears.of(p.pk, "META"); torn {
		v.born--
	}
	if purge, torn := w.tears.of(p.pk, "PURGE"); torn {
		v.purges[0].seq = numberOf(purge.before, "hard_seq")
	}
	return v
}

// lockedRandom returns a random source that is safe for concurrent use.
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

// mayVisit reports whether a visitor may request a page: not together with a rollback of the
// page before the process has read SEQ and the marks (see mayAssert), with a forced regeneration,
// or, at a process that may be late, with a visitor that has a receipt.
func (l *life) mayVisit(p *page) bool {
	v := l.pages[p]
	return v.mayVisit() && (l.begun.Load() || v.asserting == 0) && (!v.demanding || !l.mayBeLate())
}

// mayBeLate reports whether visitors may have to wait for the next read of the log. The seed does
// not decide which of those that wait for the same read starts the flight, and a visitor with a
// receipt may join a second flight only if it did not start the first.
func (l *life) mayBeLate() bool { return time.Since(l.log.read) > l.w.pace.poll() }

// mayVisit and mayForce separate visitors from forced regenerations of the same page at the
// same process until the regeneration has begun. Both would wait for the same flight, and
// the seed does not decide which of them starts the next. In real time the seed decides
// nothing of the kind anyway.
func (v *view) mayVisit() bool { return !v.forcing || len(v.rendered) > v.forced }

func (w *world) mayForce(l *life, p *page) bool {
	v := l.pages[p]
	return !v.forcing && (v.waiting == 0 || !w.pace.ordered())
}

// mayAssert: a rollback makes the next visitor start another flight, and all flights wait until
// the process has read SEQ and the marks for the first time. The seed does not decide which of
// two goes first then.
func (l *life) mayAssert(p *page) bool {
	v := l.pages[p]
	return l.begun.Load() || !v.asked
}

// force records that a forced regeneration is in progress.
func (v *view) force() { v.asked, v.forcing, v.forced = true, true, len(v.rendered) }

// unheard blocks a goroutine of a dead process until its context ends, or for the afterlife at
// most.
func (l *life) unheard(ctx context.Context) outcome {
	ctx, cancel := context.WithTimeout(ctx, l.w.pace.afterlife)
	defer cancel()
	<-ctx.Done()
	return outcome{err: errCrashed}
}

// crash ends a node's process, whose requests may still arrive, and starts the next one.
func (w *world) crash(n *node) {
	w.log("%s crashes", n.life.name)
	if n.life.purging > 0 {
		w.counts["purging node crashed"]++
	}
	w.end(n.life)
	if err := w.start(n); err != nil {
		w.violate("a node starts", "%s: %v", n.name, err)
	}
}

// end kills a process. Its goroutines and the world no longer affect each other; closing the
// cache makes the goroutines end.
func (w *world) end(l *life) {
	w.gate.orphan(l)
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	w.ended.Go(func() { _ = l.cache.Close(gone) })
}

// freeze stops all goroutines of a process for longer than a lease. A process that has rendered
// a page and is about to publish it may take all nodes with it, as a shared host does, so
// that no other process takes the lease over.
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

// storing returns a process that has rendered a page and is storing its body; nil if there is
// none.
func (w *world) storing() *life {
	for _, c := range w.gate.choosable(time.Now()) {
		if c.op == "body put" && !c.gone.Load() {
			return c.life
		}
	}
	return nil
}

// stop freezes a process.
func (w *world) stop(l *life, d time.Duration) {
	w.log("%s freezes for %.3fs", l.name, d.Seconds())
	if l.purging > 0 {
		w.counts["purging node froze"]++
	}
	l.until = time.Now().Add(d)
	l.froze, l.leased = time.Now(), w.leaseEnd(l)
	w.gate.freeze(l, true)
}

// thaw resumes the processes whose time has come, or all.
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

// leaseEnd returns when the last lease of a process ends, in epoch seconds; 0 if it holds none.
func (w *world) leaseEnd(l *life) int64 {
	var end int64
	for _, p := range w.pages {
		if held := p.rows.lock(); held != nil && w.holderOf(held) == l {
			end = max(end, held.expires)
		}
	}
	return end
}

// awake returns the nodes whose processes run.
func (w *world) awake() []*node {
	var awake []*node
	for _, n := range w.nodes {
		if !n.life.frozen {
			awake = append(awake, n)
		}
	}
	return awake
}
