package simulator

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/store"
)

// A witness stands between a cache and its store and records calls and results.
type witness struct {
	store.MetaStore
	life *life

	mu     sync.Mutex
	tokens map[store.Lease]string // guarded by mu
}

// A note travels in a call's context from the store to the gate, and returns what only the table
// knows.
type note struct {
	index atomic.Int64 // the generation that was current then; set by the driver
	token string       // the token of the requested lease
}

type noteKey struct{}

func withNote(ctx context.Context) (context.Context, *note) {
	n := new(note)
	return context.WithValue(ctx, noteKey{}, n), n
}

// noteOf returns the note of a call; nil if there is none.
func noteOf(ctx context.Context) *note {
	n, _ := ctx.Value(noteKey{}).(*note)
	return n
}

// An intent is what a process is about to publish, and what it knew.
type intent struct {
	life  *life
	token string // of its lease
	seq   int64  // the purge sequence that it knew when it had read META
}

// A witnessed fence records the purge sequence that the process knew after the read: the sequence of the
// page, and the one up to which it had applied the log.
type witnessed struct {
	fence any
	seq   int64
}

// Read implements [store.MetaStore].
func (m *witness) Read(ctx context.Context, pk string) (store.Record, error) {
	return m.read(ctx, pk, m.MetaStore.Read)
}

// ReadSerializable implements [store.MetaStore].
func (m *witness) ReadSerializable(ctx context.Context, pk string) (store.Record, error) {
	return m.read(ctx, pk, m.MetaStore.ReadSerializable)
}

func (m *witness) read(ctx context.Context, pk string, read func(context.Context, string) (store.Record, error)) (store.Record, error) {
	ctx, n := withNote(ctx)
	rec, err := read(ctx, pk)
	m.life.w.learn(m.life, m.life.w.pageOf(pk), rec.Purges.HardSeq)
	if err == nil && !isAside(ctx) {
		m.life.w.noteRead(m.life, m.life.w.pageOf(pk), int(n.index.Load()))
	}
	rec.Fence = witnessed{rec.Fence, max(rec.Purges.Seq, m.life.applied.Load())}
	return rec, err
}

// open restores the store's own fence in a record.
func open(read store.Record) (store.Record, witnessed) {
	w, _ := read.Fence.(witnessed)
	read.Fence = w.fence
	return read, w
}

// Acquire implements [store.MetaStore].
func (m *witness) Acquire(ctx context.Context, pk string, d time.Duration, claim *store.Claim) (store.Lease, error) {
	ctx, n := withNote(ctx)
	// A collection's lease would outlive a fast world.
	l, err := m.MetaStore.Acquire(ctx, pk, min(d, m.life.w.pace.lease()), claim)
	if err == nil {
		m.mu.Lock()
		m.tokens[l] = n.token
		m.mu.Unlock()
	}
	m.life.w.happened(event{kind: acquired, life: m.life, page: m.life.w.pageOf(pk), token: n.token, err: err})
	return l, err
}

func (m *witness) token(l store.Lease) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tokens[l]
}

// Refresh implements [store.MetaStore].
func (m *witness) Refresh(ctx context.Context, l store.Lease) error {
	began := time.Now()
	err := m.MetaStore.Refresh(ctx, l)
	if errors.Is(err, store.ErrLeaseLost) {
		m.life.w.happened(event{kind: leaseLost, life: m.life, page: m.life.w.pageOf(l.PK()), token: m.token(l), since: began, err: err})
	}
	return err
}

// Publish implements [store.MetaStore].
func (m *witness) Publish(ctx context.Context, l store.Lease, read store.Record, next store.Entry, how store.PublishOptions) (store.Entry, error) {
	w := m.life.w
	read, known := open(read)
	token := m.token(l)
	w.mu.Lock()
	w.intents[publicationOf(next.GenerationID, next.GeneratedAt)] = &intent{life: m.life, token: token, seq: known.seq}
	w.mu.Unlock()
	began := time.Now()
	got, err := m.MetaStore.Publish(ctx, l, read, next, how)
	e := event{kind: published, life: m.life, page: w.pageOf(l.PK()), entry: next, token: token, since: began, err: err}
	if err == nil {
		e.entry = got
		w.noteReload(m.life, e.page)
	}
	w.happened(e)
	return got, err
}

// BreakLease implements [store.MetaStore].
func (m *witness) BreakLease(ctx context.Context, read store.Record) error {
	read, _ = open(read)
	return m.MetaStore.BreakLease(ctx, read)
}

// Rollback implements [store.MetaStore].
func (m *witness) Rollback(ctx context.Context, read store.Record, to string, a store.Assertion) (store.Entry, error) {
	read, _ = open(read)
	return m.MetaStore.Rollback(ctx, read, to, a)
}

// Pin implements [store.MetaStore].
func (m *witness) Pin(ctx context.Context, read store.Record, a store.Assertion) (store.Entry, error) {
	read, _ = open(read)
	return m.MetaStore.Pin(ctx, read, a)
}
