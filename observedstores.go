package isr

import (
	"context"
	"errors"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/facetheory/isr/store"
)

// The stores of a cache with an observer are wrapped, below deadlines and circuit breakers, so
// that the observer is told of each call, probes included. Without an observer they are not.

// OutcomeOf returns the outcome of a store call whose caller has ctx: "ok", "held" (the lease is
// held, or the page in back-off), "moved" (another writer was faster), "lost" (the lease),
// "denied", "throttled", "not-found", "refused" (the state of the page, or the input, forbids
// it), "timeout", "canceled" or "error". A store that retries answers what the last attempt did.
func OutcomeOf(ctx context.Context, err error) string {
	if err == nil {
		return "ok"
	}
	for _, answer := range []struct {
		err     error
		outcome string
	}{
		{store.ErrMoved, "moved"},
		{store.ErrLeaseLost, "lost"},
		{store.ErrForeignLease, "lost"},
		{store.ErrDenied, "denied"},
		{store.ErrNotFound, "not-found"},
		{store.ErrNoVersion, "not-found"},
		{store.ErrNotQuarantined, "not-found"},
		{store.ErrPinned, "refused"},
		{store.ErrPurged, "refused"},
		{store.ErrExists, "refused"},
		{store.ErrInvalidKey, "refused"},
		{store.ErrInvalidInput, "refused"},
	} {
		if errors.Is(err, answer.err) {
			return answer.outcome
		}
	}
	var held *store.HeldError
	var earlier *store.RequestError
	var api interface{ ErrorCode() string } // of AWS
	switch {
	case errors.As(err, &held):
		return "held"
	case errors.As(err, &earlier):
		return "refused"
	case errors.Is(ctx.Err(), context.Canceled):
		return "canceled"
	case errors.As(err, &api) && isThrottle(api.ErrorCode()):
		return "throttled"
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return "error"
}

// isThrottle reports whether an error code of DynamoDB or S3 says that there were too many
// requests.
func isThrottle(code string) bool {
	return strings.HasPrefix(code, "Throttl") || code == "ProvisionedThroughputExceededException" || code == "RequestLimitExceeded" || code == "SlowDown"
}

// observedStores returns stores that tell o of their calls. o may be nil.
func observedStores(meta store.MetaStore, bodies store.BodyStore, o Observer) (store.MetaStore, store.BodyStore) {
	if o == nil {
		return meta, bodies
	}
	return &observedTable{meta, calls(o, OperationTable)}, &observedBodies{bodies, calls(o, OperationBodies)}
}

// A beginCall begins an operation, and returns its context and the function that ends it, with
// the size of the body that was read or written.
type beginCall func(ctx context.Context, name string) (context.Context, func(bytes int64, err error))

// calls returns a function that begins operations of a kind.
func calls(o Observer, kind OperationKind) beginCall {
	return func(ctx context.Context, name string) (context.Context, func(int64, error)) {
		ctx, end := o.Begin(ctx, Operation{Kind: kind, Name: name})
		return ctx, func(bytes int64, err error) {
			end(Result{Outcome: OutcomeOf(ctx, err), Bytes: bytes, Err: err})
		}
	}
}

// eachCall is an operation that lasts as long as its results are read.
func eachCall[V any](ctx context.Context, begin beginCall, name string, call func(context.Context) iter.Seq2[V, error]) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		ctx, end := begin(ctx, name)
		var failed error
		defer func() { end(0, failed) }()
		for v, err := range call(ctx) {
			failed = err
			if !yield(v, err) {
				return
			}
		}
	}
}

// An observedTable tells an observer of the calls of a MetaStore that a cache makes.
type observedTable struct {
	store.MetaStore
	begin beginCall
}

func (t *observedTable) Read(ctx context.Context, pk string) (store.Record, error) {
	ctx, end := t.begin(ctx, "read")
	v, err := t.MetaStore.Read(ctx, pk)
	end(0, err)
	return v, err
}

func (t *observedTable) ReadSerializable(ctx context.Context, pk string) (store.Record, error) {
	ctx, end := t.begin(ctx, "read-serializable")
	v, err := t.MetaStore.ReadSerializable(ctx, pk)
	end(0, err)
	return v, err
}

func (t *observedTable) Acquire(ctx context.Context, pk string, d time.Duration, claim *store.Claim) (store.Lease, error) {
	ctx, end := t.begin(ctx, "acquire")
	v, err := t.MetaStore.Acquire(ctx, pk, d, claim)
	end(0, err)
	return v, err
}

func (t *observedTable) Refresh(ctx context.Context, l store.Lease) error {
	ctx, end := t.begin(ctx, "refresh")
	err := t.MetaStore.Refresh(ctx, l)
	end(0, err)
	return err
}

func (t *observedTable) Release(ctx context.Context, l store.Lease) error {
	ctx, end := t.begin(ctx, "release")
	err := t.MetaStore.Release(ctx, l)
	end(0, err)
	return err
}

func (t *observedTable) BackOff(ctx context.Context, l store.Lease, d time.Duration) error {
	ctx, end := t.begin(ctx, "back-off")
	err := t.MetaStore.BackOff(ctx, l, d)
	end(0, err)
	return err
}

func (t *observedTable) BreakLease(ctx context.Context, read store.Record) error {
	ctx, end := t.begin(ctx, "break-lease")
	err := t.MetaStore.BreakLease(ctx, read)
	end(0, err)
	return err
}

func (t *observedTable) Publish(ctx context.Context, l store.Lease, read store.Record, next store.Entry, how store.PublishOptions) (store.Entry, error) {
	ctx, end := t.begin(ctx, "publish")
	v, err := t.MetaStore.Publish(ctx, l, read, next, how)
	end(0, err)
	return v, err
}

func (t *observedTable) Versions(ctx context.Context, pk string) ([]store.Entry, error) {
	ctx, end := t.begin(ctx, "versions")
	v, err := t.MetaStore.Versions(ctx, pk)
	end(0, err)
	return v, err
}

func (t *observedTable) Rollback(ctx context.Context, read store.Record, to string, a store.Assertion) (store.Entry, error) {
	ctx, end := t.begin(ctx, "rollback")
	v, err := t.MetaStore.Rollback(ctx, read, to, a)
	end(0, err)
	return v, err
}

func (t *observedTable) Pin(ctx context.Context, read store.Record, a store.Assertion) (store.Entry, error) {
	ctx, end := t.begin(ctx, "pin")
	v, err := t.MetaStore.Pin(ctx, read, a)
	end(0, err)
	return v, err
}

func (t *observedTable) RenewPin(ctx context.Context, read store.Record, k store.Key, at time.Time) (store.Entry, error) {
	ctx, end := t.begin(ctx, "renew-pin")
	v, err := t.MetaStore.RenewPin(ctx, read, k, at)
	end(0, err)
	return v, err
}

func (t *observedTable) RequestRecord(ctx context.Context, pk, key string) (rec store.RequestRecord, found bool, err error) {
	ctx, end := t.begin(ctx, "request-record")
	rec, found, err = t.MetaStore.RequestRecord(ctx, pk, key)
	end(0, err)
	return rec, found, err
}

func (t *observedTable) EndRequest(ctx context.Context, l store.Lease, how store.RequestEnd) error {
	ctx, end := t.begin(ctx, "end-request")
	err := t.MetaStore.EndRequest(ctx, l, how)
	end(0, err)
	return err
}

func (t *observedTable) Sequence(ctx context.Context) (store.Sequence, error) {
	ctx, end := t.begin(ctx, "sequence")
	v, err := t.MetaStore.Sequence(ctx)
	end(0, err)
	return v, err
}

func (t *observedTable) Changes(ctx context.Context, after int64) (seq store.Sequence, changes []store.Change, err error) {
	ctx, end := t.begin(ctx, "changes")
	seq, changes, err = t.MetaStore.Changes(ctx, after)
	end(0, err)
	return seq, changes, err
}

func (t *observedTable) Recent(ctx context.Context, upTo int64) ([]store.Change, error) {
	ctx, end := t.begin(ctx, "recent")
	v, err := t.MetaStore.Recent(ctx, upTo)
	end(0, err)
	return v, err
}

func (t *observedTable) Purge(ctx context.Context, p store.Purge) (store.Receipt, error) {
	ctx, end := t.begin(ctx, "purge")
	v, err := t.MetaStore.Purge(ctx, p)
	end(0, err)
	return v, err
}

func (t *observedTable) Marks(ctx context.Context) iter.Seq2[store.Mark, error] {
	return eachCall(ctx, t.begin, "marks", t.MetaStore.Marks)
}

func (t *observedTable) Covering(ctx context.Context, k store.Key, tags []string) (store.PurgeState, error) {
	ctx, end := t.begin(ctx, "covering")
	v, err := t.MetaStore.Covering(ctx, k, tags)
	end(0, err)
	return v, err
}

func (t *observedTable) DeleteMark(ctx context.Context, m store.Mark) error {
	ctx, end := t.begin(ctx, "delete-mark")
	err := t.MetaStore.DeleteMark(ctx, m)
	end(0, err)
	return err
}

func (t *observedTable) Build(ctx context.Context, id string) (int64, error) {
	ctx, end := t.begin(ctx, "build")
	v, err := t.MetaStore.Build(ctx, id)
	end(0, err)
	return v, err
}

func (t *observedTable) AddVariant(ctx context.Context, pk string, k store.Key, until time.Time) error {
	ctx, end := t.begin(ctx, "add-variant")
	err := t.MetaStore.AddVariant(ctx, pk, k, until)
	end(0, err)
	return err
}

func (t *observedTable) RemoveVariant(ctx context.Context, pk string, k store.Key, until time.Time) error {
	ctx, end := t.begin(ctx, "remove-variant")
	err := t.MetaStore.RemoveVariant(ctx, pk, k, until)
	end(0, err)
	return err
}

func (t *observedTable) Variants(ctx context.Context, pk string, limit int) (texts []string, more bool, err error) {
	ctx, end := t.begin(ctx, "variants")
	texts, more, err = t.MetaStore.Variants(ctx, pk, limit)
	end(0, err)
	return texts, more, err
}

func (t *observedTable) Announce(ctx context.Context, n store.Node) error {
	ctx, end := t.begin(ctx, "announce")
	err := t.MetaStore.Announce(ctx, n)
	end(0, err)
	return err
}

func (t *observedTable) Withdraw(ctx context.Context, id string) error {
	ctx, end := t.begin(ctx, "withdraw")
	err := t.MetaStore.Withdraw(ctx, id)
	end(0, err)
	return err
}

func (t *observedTable) Nodes(ctx context.Context) ([]store.Node, error) {
	ctx, end := t.begin(ctx, "nodes")
	v, err := t.MetaStore.Nodes(ctx)
	end(0, err)
	return v, err
}

func (t *observedTable) Quarantine(ctx context.Context, l store.Lease, q store.Quarantined) error {
	ctx, end := t.begin(ctx, "quarantine")
	err := t.MetaStore.Quarantine(ctx, l, q)
	end(0, err)
	return err
}

func (t *observedTable) Quarantined(ctx context.Context, pk string) (store.Quarantined, error) {
	ctx, end := t.begin(ctx, "quarantined")
	v, err := t.MetaStore.Quarantined(ctx, pk)
	end(0, err)
	return v, err
}

func (t *observedTable) DropQuarantined(ctx context.Context, pk, generation string) error {
	ctx, end := t.begin(ctx, "drop-quarantined")
	err := t.MetaStore.DropQuarantined(ctx, pk, generation)
	end(0, err)
	return err
}

func (t *observedTable) ReferencedBodies(ctx context.Context) iter.Seq2[store.ReferencedBodies, error] {
	return eachCall(ctx, t.begin, "referenced-bodies", t.MetaStore.ReferencedBodies)
}

func (t *observedTable) BodyKeys(ctx context.Context, pk string) ([]string, error) {
	ctx, end := t.begin(ctx, "body-keys")
	v, err := t.MetaStore.BodyKeys(ctx, pk)
	end(0, err)
	return v, err
}

func (t *observedTable) PinnedForever(ctx context.Context) iter.Seq2[string, error] {
	return eachCall(ctx, t.begin, "pinned-forever", t.MetaStore.PinnedForever)
}

// An observedBodies tells an observer of the calls of a BodyStore. Opening a body includes
// reading it.
type observedBodies struct {
	store.BodyStore
	begin beginCall
}

func (b *observedBodies) Put(ctx context.Context, key string, body []byte) error {
	ctx, end := b.begin(ctx, "put")
	err := b.BodyStore.Put(ctx, key, body)
	end(int64(len(body)), err)
	return err
}

func (b *observedBodies) Stat(ctx context.Context, key string) (store.BodyInfo, error) {
	ctx, end := b.begin(ctx, "stat")
	info, err := b.BodyStore.Stat(ctx, key)
	end(0, err)
	return info, err
}

func (b *observedBodies) Delete(ctx context.Context, key string) error {
	ctx, end := b.begin(ctx, "delete")
	err := b.BodyStore.Delete(ctx, key)
	end(0, err)
	return err
}

// DeleteBatch implements [store.BatchDeleter].
func (b *observedBodies) DeleteBatch(ctx context.Context, keys []string) (deleted int, err error) {
	ctx, end := b.begin(ctx, "delete-batch")
	deleted, err = store.DeleteBodies(ctx, b.BodyStore, keys)
	end(0, err)
	return deleted, err
}

func (b *observedBodies) List(ctx context.Context, prefix string) iter.Seq2[store.BodyInfo, error] {
	return eachCall(ctx, b.begin, "list", func(ctx context.Context) iter.Seq2[store.BodyInfo, error] {
		return b.BodyStore.List(ctx, prefix)
	})
}

func (b *observedBodies) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	ctx, end := b.begin(ctx, "open")
	rd, n, err := b.BodyStore.Open(ctx, key)
	if err != nil {
		end(0, err)
		return nil, 0, err
	}
	return &observedBody{ReadCloser: rd, end: end}, n, nil
}

// OpenRange implements [store.RangeReader].
func (b *observedBodies) OpenRange(ctx context.Context, key string, offset, length int64) (io.ReadCloser, int64, error) {
	ctx, end := b.begin(ctx, "open-range")
	rd, size, err := store.OpenRange(ctx, b.BodyStore, key, offset, length)
	if err != nil {
		end(0, err)
		return nil, 0, err
	}
	return &observedBody{ReadCloser: rd, end: end}, size, nil
}

// An observedBody ends its operation when it is closed.
type observedBody struct {
	io.ReadCloser
	end  func(int64, error)
	read int64
	err  error // of reading
}

func (b *observedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if err != nil && err != io.EOF { //nolint:errorlint // io.Reader returns it as it is
		b.err = err
	}
	return n, err
}

// Presentation implements [store.Presented].
func (b *observedBody) Presentation() store.Presentation { return store.PresentationOf(b.ReadCloser) }

func (b *observedBody) Close() error {
	b.end(b.read, b.err)
	return b.ReadCloser.Close()
}

// localReader returns the local disk of bodies, and tells an observer of its reads; nil if they
// are elsewhere. o may be nil.
func localReader(bodies store.BodyStore, o Observer) store.LocalReader {
	local, _ := bodies.(store.LocalReader)
	if local == nil || o == nil {
		return local
	}
	return &observedLocal{local, calls(o, OperationBodies)}
}

// An observedLocal tells an observer of the bodies that a cache reads from a local disk.
type observedLocal struct {
	store.LocalReader
	begin beginCall
}

func (b *observedLocal) ReadLocal(ctx context.Context, key string, limit int64) ([]byte, error) {
	ctx, end := b.begin(ctx, "read-local")
	body, err := b.LocalReader.ReadLocal(ctx, key, limit)
	end(int64(len(body)), err)
	return body, err
}
