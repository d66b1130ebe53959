package simulator

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/store"
)

// host is the host of all pages.
const host = "site.test"

// A world is one simulation. The driver, which is the goroutine of run, owns all
// fields that are not marked as guarded.
type world struct {
	seed    uint64
	pace    pace
	profile profile
	bug     Bug
	rng     *mathrand.Rand
	began   time.Time

	outside *outside
	engine  Engine // called only by outside.do, newWorld and close
	// answering is the engine as the nodes see it.
	answering Engine
	tears     *tearingEngine // nil: transactions are not seen in part
	closeDB   func() error
	table     string
	shelf     *shelf
	gate      *gate
	route     isr.Route
	failing   int // if renderers fail, one of this many renders does
	nodes     []*node
	wires     wires // between peers
	pages     []*page
	grants    map[string]*grant               // by token
	marks     map[store.PurgeTarget]markState // as committed
	receipts  []*nodePurge                    // the acknowledged purges
	witnesses int                             // so far; see nodePurge.witness
	unmade    map[string]bool                 // the witnesses of purges that were reported as failed
	ended     sync.WaitGroup                  // all goroutines that the driver started

	trace     *trace
	counts    map[string]int
	violation *Violation
	visitors  int   // so far
	seqBefore int64 // the purge sequence before the latest call
	damaged   bool  // rows of the log were deleted or made unreadable
	reverts   int   // rollbacks still to be made at once, by nodes that may not know of a hard purge
	rush      int   // changes of the log still to be made at once
	first     *post // an unsafe request that another one may follow soon
	delays    delays

	mu        sync.Mutex
	step      int                // guarded by mu; written by the driver
	seq       int64              // the purge sequence of the table; guarded by mu
	readable  int64              // the part of it that reads show; guarded by mu
	recovered bool               // faults have stopped; guarded by mu
	intents   map[string]*intent // by publication; guarded by mu
	events    []event            // that the driver has not processed yet; guarded by mu
}

// A page is one cache key and the simulator's knowledge of it.
type page struct {
	path      string
	key       store.Key
	pk        string
	rows      partition     // as last read
	lockMoved time.Time     // when LOCK last changed
	history   []*generation // all states of META, the current one last
	hardSeq   int64         // of its newest hard purge

	externals int // contents of other services

	declared bool               // a rollback or a pin was requested
	told     []logEffect        // what the log says of the page, in its order
	demands  map[string]*demand // by sort key of the request record

	versions map[int64]string // of generations that nodes published
	rendered map[string]int64 // the purge sequence at the latest render of a content
	never    map[string]bool  // generations whose publish was reported as failed

	renderedAt map[string]time.Time // when the latest render of a content began

	renders  int       // guarded by world.mu
	contents int       // guarded by world.mu
	purged   time.Time // when an operator or another service purged it last, or may have; guarded by world.mu

	purgedBy map[*life]time.Time // when a process purged it last, for whatever reason, or may have; guarded by world.mu
}

// tableName is the name of a table in memory.
const tableName = "pages"

func newWorld(cfg Config, pace pace, outside *outside) *world {
	w := &world{
		seed: cfg.Seed, pace: pace, profile: profileOf(cfg.Seed), outside: outside,
		rng:   mathrand.New(mathrand.NewPCG(cfg.Seed, 0)),
		shelf: newShelf(), gate: newGate(pace), grants: make(map[string]*grant), marks: make(map[store.PurgeTarget]markState), unmade: make(map[string]bool), intents: make(map[string]*intent),
		trace: newTrace(), counts: make(map[string]int),
	}
	if cfg.Bug != nil {
		w.bug = *cfg.Bug
	}
	w.open(cfg.Engine)
	w.answering = w.engine
	if w.profile.lags {
		w.answering = newLaggingEngine(w)
	}
	if w.profile.tears {
		w.tears = newTearingEngine(w)
		w.pace.polls = longestTear / 4 // so that nodes learn of changes that are seen in part
		w.answering = w.tears
	}
	w.route = isr.Route{
		Name: "site", Revalidate: pace.seconds(time.Duration(10+w.rng.IntN(50)) * time.Second),
		Stale: pace.seconds(time.Duration(30+w.rng.IntN(200)) * time.Second),
	}
	if w.profile.lasting || (w.profile.freezes > 0 || w.profile.tears) && w.rng.IntN(2) == 0 {
		w.route.Revalidate *= 10 // so that many are in memory when a process thaws
	}
	if w.rng.IntN(4) == 0 {
		w.route.Stale = -1
	}
	w.failing = []int{8, 8, 2}[w.rng.IntN(3)]
	if !pace.ordered() {
		w.failing = 8 // such worlds are too short for many failures
	}
	if w.rng.IntN(2) == 0 || w.profile.assertions > 0 {
		w.route.History = 2 + w.rng.IntN(3)
	}
	for i := range 1 + w.rng.IntN(3) {
		path := "/" + string(rune('a'+i))
		key := store.Key{Text: host + path}
		w.pages = append(w.pages, &page{
			path: path, key: key, pk: store.HashedPartition(key), rows: make(partition),
			versions: make(map[int64]string), never: make(map[string]bool),
			rendered: make(map[string]int64), renderedAt: make(map[string]time.Time), purgedBy: make(map[*life]time.Time), demands: make(map[string]*demand),
		})
	}
	for i := range 2 + w.rng.IntN(3) {
		n := &node{name: fmt.Sprintf("n%d", i+1), skew: w.profile.skewOf(w.rng, pace.skew)}
		w.nodes = append(w.nodes, n)
		if err := w.start(n); err != nil {
			w.violate("a node starts", "%s: %v", n.name, err)
		}
	}
	return w
}

// open creates the table. How long that takes is random, so it waits until a fixed
// instant, at which the history begins.
func (w *world) open(engine Engine) {
	w.began = time.Now().Add(w.pace.lead)
	defer func() { time.Sleep(time.Until(w.began)) }()
	w.engine, w.closeDB, w.table = engine, func() error { return nil }, tableName
	if w.engine == nil {
		db := localdynamo.OpenMemory(localdynamo.Options{SweepInterval: -1})
		w.engine, w.closeDB = embedded{db}, db.Close
	} else {
		w.table = "simulator-" + rand.Text()
	}
	w.outside.do(func() {
		if err := dynamostore.CreateTable(context.Background(), w.engine, w.table); err != nil {
			w.violate("the engine responds", "creating the table: %v", err)
		}
	})
}

// run is the life of the world: faults, recovery, and the end.
func (w *world) run() Report {
	w.log("%s; %d nodes, %d pages, fresh for %v, stale for %v, history of %d", w.profile.name, len(w.nodes), len(w.pages), w.route.Revalidate, w.route.Stale, w.route.History)
	for _, n := range w.nodes {
		w.log("the clock of %s is off by %v", n.name, n.skew)
	}
	for steps, began := 0, time.Now(); w.goesOn(steps, time.Since(began)); steps++ {
		w.settle()
		if w.violation != nil {
			break
		}
		w.drive()
		w.checkPolls()
	}
	w.settle()
	if w.violation == nil {
		w.recover()
	}
	w.close()
	return w.report()
}

// goesOn reports whether the faults continue.
func (w *world) goesOn(steps int, since time.Duration) bool {
	if w.profile.quiet && since < w.pace.of(quietLife) {
		steps /= 4
	}
	return steps < w.pace.steps && since < w.pace.life
}

// quietLife is how long the faults last in a world with few visitors, unless that takes
// four times the usual steps.
const quietLife = 3 * time.Minute

// settle waits until all goroutines are blocked, if the pace has such a moment, and
// processes the events.
func (w *world) settle() {
	w.reportEnded()
	w.digestEvents()
	w.checkShelf()
}

// reportEnded waits until all goroutines are blocked, if the pace has such a moment. Whenever
// they are, it reports the end of one call's context to its caller.
func (w *world) reportEnded() {
	for w.pace.ordered() {
		w.pace.settle()
		c := w.gate.nextEnded()
		if c == nil {
			return
		}
		w.log("%s: %s: %s", c.life.name, c.op, summary(c.ended))
		w.gate.expire(c)
	}
}

// close ends all goroutines, in a bubble or without one.
func (w *world) close() {
	for _, n := range w.nodes {
		if !n.life.isDead() {
			w.end(n.life)
		}
	}
	w.ended.Wait()
	time.Sleep(2 * w.pace.afterlife)
	w.outside.do(func() {
		if err := w.closeDB(); err != nil {
			w.violate("the engine responds", "closing it: %v", err)
		}
	})
}

func (w *world) report() Report {
	w.wires.report(w.counts)
	return Report{
		Seed: w.seed, Profile: w.profile.name, Steps: w.step, Hash: w.trace.hash(), Counts: w.counts,
		Violation: w.violation, Trace: w.trace.lines,
	}
}

// violate records the first violated invariant.
func (w *world) violate(invariant, format string, args ...any) {
	if w.violation != nil {
		return
	}
	detail := fmt.Sprintf(format, args...)
	w.log("VIOLATED: %s: %s", invariant, detail)
	w.violation = &Violation{
		Seed: w.seed, Profile: w.profile.name, Step: w.step, Invariant: invariant, Detail: detail,
		RealTime: !w.pace.ordered(), Last: w.trace.last(tail),
	}
}

func (w *world) log(format string, args ...any) {
	w.trace.add(w.step, time.Since(w.began), format, args...)
}

// pageOf finds a page by its partition key; nil if there is none.
func (w *world) pageOf(pk string) *page {
	for _, p := range w.pages {
		if p.pk == pk {
			return p
		}
	}
	return nil
}

// pageAt finds a page by its path.
func (w *world) pageAt(path string) *page {
	for _, p := range w.pages {
		if p.path == path {
			return p
		}
	}
	return nil
}

// rowName returns the name of a row in the trace.
func (w *world) rowName(pk, sk string) string {
	if p := w.pageOf(pk); p != nil {
		pk = p.path
	}
	if id, ok := strings.CutPrefix(sk, "VER#"); ok {
		sk = w.trace.name("VER#", id)
	} else if strings.HasPrefix(sk, "NODE#") {
		sk = "NODE#" // of the caller; its id is random
	}
	return pk + " " + sk
}

// recovering reports whether the faults have stopped. It is safe for concurrent use.
func (w *world) recovering() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.recovered
}

// request is a visitor's request for a page.
func (p *page) request(ctx context.Context) *http.Request {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+p.path, http.NoBody)
	if err != nil {
		panic(err) // the URL is constant
	}
	return r
}
