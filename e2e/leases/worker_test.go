//go:build linux || darwin

package leases

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/store"
)

// A worker makes random calls, one at a time. It reports each call before it makes it, and then
// the answer.
type worker struct {
	name      string // unique
	api       dynamostore.API
	table     string
	firstPage int // of the pages that it uses
	clock     clock
	random    *rand.Rand
	writes    *atomic.Int64 // write requests sent
	number    *atomic.Int64 // last call number in this process
	report    func(event)
	hasty     int // percentage of calls with a short deadline

	named  int // counts the lease and generation names
	reader *dynamostore.Store
	leases []*heldLease
	seen   map[int]store.Record // by page
	kept   map[int][]string     // known generations with a version row, by page
}

// A heldLease is a lease that the worker holds or has lost.
type heldLease struct {
	lease   store.Lease
	store   *dynamostore.Store // the store that acquired it
	name    string
	page    int
	seconds int64
	request string // not ended yet
}

// newClient returns a client with the default settings that counts write requests.
func newClient(endpoint string) (*dynamodb.Client, *atomic.Int64) {
	counted := &counted{client: awshttp.NewBuildableClient()}
	return dynamodb.New(dynamodb.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String(endpoint),
		Credentials:  credentials.NewStaticCredentialsProvider("isrtest", "isrtest", ""),
		HTTPClient:   counted,
	}), &counted.writes
}

type counted struct {
	client aws.HTTPClient
	writes atomic.Int64
}

func (c *counted) Do(r *http.Request) (*http.Response, error) {
	switch operation := r.Header.Get("X-Amz-Target"); {
	case strings.HasSuffix(operation, ".GetItem"), strings.HasSuffix(operation, ".Query"):
	default:
		c.writes.Add(1)
	}
	return c.client.Do(r)
}

// store returns a store whose leases have this owner.
func (w *worker) store(owner string) *dynamostore.Store {
	s, err := dynamostore.New(w.api, w.table, dynamostore.Config{Owner: owner, Now: w.clock.wall})
	if err != nil {
		panic(err) // both arguments are set
	}
	return s
}

// work makes calls until the context is done. The last call is not interrupted.
func (w *worker) work(ctx context.Context) {
	w.prepare()
	for ctx.Err() == nil {
		w.turn()
	}
}

func (w *worker) prepare() {
	w.reader = w.store(w.name)
	w.seen, w.kept = make(map[int]store.Record), make(map[int][]string)
}

// turn makes one or two random calls.
func (w *worker) turn() {
	const most = 4 // held leases
	if n := len(w.leases); n == most || n > 0 && w.random.IntN(100) < 60 {
		w.use(w.random.IntN(n))
		return
	}
	at := w.firstPage + w.random.IntN(pages)
	switch n := w.random.IntN(100); {
	case n < 30:
		w.read(at)
	case n < 60:
		w.acquire(at, "")
	case n < 80:
		w.acquire(at, w.sharedRequest())
	case n < 88:
		w.lookUp(at, w.sharedRequest())
	case n < 92:
		w.breakLease(at)
	default:
		w.rollback(at)
	}
}

// use makes a call under a lease that may be lost. It often keeps a lost lease, since later
// calls with it must be refused.
func (w *worker) use(i int) {
	l := w.leases[i]
	over := false
	switch n := w.random.IntN(100); {
	case n < 30:
		over = w.refresh(l)
	case n < 70:
		if n < 62 {
			w.read(l.page)
		}
		over = w.publish(l)
	case n < 78:
		over = w.release(l)
	case n < 88:
		over = w.backOff(l)
	case n < 95:
		w.end(l)
	default:
		over = true // abandon the lease
	}
	if l.request != "" && w.random.IntN(2) == 0 {
		w.lookUp(l.page, l.request)
	}
	if over && w.random.IntN(4) > 0 {
		w.leases = slices.Delete(w.leases, i, i+1)
	}
}

// sharedRequest returns an idempotency key that several workers use within the same seconds.
func (w *worker) sharedRequest() string {
	return fmt.Sprintf("r%d-%d", w.clock.wall().Unix()/3, w.random.IntN(3))
}

func (w *worker) newName() string {
	w.named++
	return fmt.Sprintf("%s.%d", w.name, w.named)
}

// do makes a call and reports it and its answer.
func (w *worker) do(c call, ask func(context.Context) answer) answer {
	number, before := int(w.number.Add(1)), w.writes.Load()
	w.report(event{Number: number, At: w.clock(), Call: &c})
	ctx, cancel := context.WithCancel(context.Background())
	if w.random.IntN(100) < w.hasty {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(w.random.IntN(5_000))*time.Microsecond)
	}
	defer cancel()
	got := ask(ctx)
	got.Writes = int(w.writes.Load() - before)
	w.report(event{Number: number, At: w.clock(), Answer: &got})
	return got
}

func pk(at int) string { return fmt.Sprintf("CACHE#%d", at) }

// --- Calls that need no lease -----------------------------------------------

func (w *worker) read(at int) {
	w.do(call{Verb: verbRead, Page: at}, func(ctx context.Context) answer {
		r, err := w.reader.Read(ctx, pk(at))
		if err != nil {
			return answerOf(err)
		}
		w.seen[at] = r
		return answer{Outcome: outcomeOK, Lock: lockOf(r), Meta: metaOf(r.Entry)}
	})
}

func (w *worker) lookUp(at int, name string) {
	w.do(call{Verb: verbLookUp, Page: at, Request: name}, func(ctx context.Context) answer {
		r, found, err := w.reader.RequestRecord(ctx, pk(at), name)
		if err != nil || !found {
			return answerOf(err)
		}
		return answer{Outcome: outcomeOK, Request: requestOf(r)}
	})
}

func (w *worker) acquire(at int, name string) {
	c := call{Verb: verbAcquire, Page: at, Lease: w.newName(), Seconds: 1 + w.random.Int64N(2), Request: name}
	var claim *store.Claim
	if name != "" {
		c.Hash = "right"
		if w.random.IntN(20) == 0 {
			c.Hash = "wrong"
		}
		claim = &store.Claim{Key: name, Hash: c.Hash, Keep: time.Hour}
	}
	l := &heldLease{store: w.store(c.Lease), name: c.Lease, page: at, seconds: c.Seconds, request: name}
	got := w.do(c, func(ctx context.Context) answer {
		var err error
		l.lease, err = l.store.Acquire(ctx, pk(at), time.Duration(c.Seconds)*time.Second, claim)
		if err != nil {
			return answerOf(err)
		}
		return answer{Outcome: outcomeOK, Failures: l.lease.Failures()}
	})
	if got.Outcome == outcomeOK {
		w.leases = append(w.leases, l)
	}
}

func (w *worker) breakLease(at int) {
	r, ok := w.seen[at]
	if !ok || r.Lock == nil {
		return
	}
	w.do(call{Verb: verbBreak, Page: at, Lock: lockOf(r)}, func(ctx context.Context) answer {
		return answerOf(w.reader.BreakLease(ctx, r))
	})
}

// rollback rolls back to a generation that any worker published with history.
func (w *worker) rollback(at int) {
	r, kept := w.seen[at], w.kept[at]
	if r.Entry == nil || len(kept) == 0 {
		return
	}
	to := kept[w.random.IntN(len(kept))]
	w.do(call{Verb: verbRollback, Page: at, Meta: metaOf(r.Entry), Generation: to}, func(ctx context.Context) answer {
		e, err := w.reader.Rollback(ctx, r, to, store.Assertion{Key: store.Key{Text: pk(at)}, At: w.clock.wall()})
		if err != nil {
			return settledAnswer(err)
		}
		return answer{Outcome: outcomeOK, Meta: metaOf(&e)}
	})
}

// --- Calls under a lease ----------------------------------------------------

func (l *heldLease) call(v verb) call {
	return call{Verb: v, Page: l.page, Lease: l.name, Seconds: l.seconds, Request: l.request}
}

func (w *worker) refresh(l *heldLease) (over bool) {
	got := w.do(l.call(verbRefresh), func(ctx context.Context) answer { return answerOf(l.store.Refresh(ctx, l.lease)) })
	return got.Outcome == outcomeLost
}

func (w *worker) release(l *heldLease) (over bool) {
	got := w.do(l.call(verbRelease), func(ctx context.Context) answer { return answerOf(l.store.Release(ctx, l.lease)) })
	return got.Outcome == outcomeOK
}

func (w *worker) backOff(l *heldLease) (over bool) {
	c := l.call(verbBackOff)
	c.Seconds, c.Failures = w.random.Int64N(2), l.lease.Failures()+1
	got := w.do(c, func(ctx context.Context) answer {
		return answerOf(l.store.BackOff(ctx, l.lease, time.Duration(c.Seconds)*time.Second))
	})
	return got.Outcome == outcomeOK
}

// end ends the request of a lease: completed by the current generation as far as the worker
// knows, or failed.
func (w *worker) end(l *heldLease) {
	if l.request == "" {
		return
	}
	c, how := l.call(verbEnd), store.RequestEnd{Failure: "by chance"}
	if e := w.seen[l.page].Entry; e != nil && w.random.IntN(2) == 0 {
		c.Generation, how = e.GenerationID, store.RequestEnd{Result: e}
	}
	got := w.do(c, func(ctx context.Context) answer { return answerOf(l.store.EndRequest(ctx, l.lease, how)) })
	if got.Outcome == outcomeOK {
		l.request = ""
	}
}

// publish publishes over the worker's last read, however old it is.
func (w *worker) publish(l *heldLease) (over bool) {
	r, ok := w.seen[l.page]
	if !ok {
		return false
	}
	c := l.call(verbPublish)
	c.Meta, c.Generation = metaOf(r.Entry), w.newName()
	how := store.PublishOptions{History: w.random.IntN(3) == 0}
	got := w.do(c, func(ctx context.Context) answer {
		e, err := l.store.Publish(ctx, l.lease, r, entry(c.Generation, w.clock.wall()), how)
		if err != nil {
			return settledAnswer(err)
		}
		return answer{Outcome: outcomeOK, Meta: metaOf(&e)}
	})
	if got.Outcome == outcomeOK && how.History {
		w.kept[l.page] = append(w.kept[l.page], c.Generation)
	}
	return got.Outcome != outcomeMoved
}

func entry(generation string, now time.Time) store.Entry {
	return store.Entry{
		BodyKey: bodyOf(generation), GenerationID: generation, GeneratedAt: now,
		Revalidate: time.Minute, Status: http.StatusOK, Length: 1,
	}
}
