package languages

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/internal/vocabulary"
	"github.com/facetheory/isr/store"
)

// A goWorker is the worker in Go. It reads commands from one stream and writes answers to
// another.
type goWorker struct {
	api    *dynamodb.Client
	table  string
	store  *dynamostore.Store
	leases map[string]*heldLease // by cache key
}

// A heldLease is a lease, and the page as it was read under the lease.
type heldLease struct {
	lease    store.Lease
	record   store.Record
	purgeSeq int64
	held     context.Context // set by keep
	stop     func()
}

// serveCommands answers commands one at a time until EOF.
func serveCommands(in io.Reader, out io.Writer) error {
	ctx := context.Background()
	configuration, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	api := dynamodb.NewFromConfig(configuration, func(o *dynamodb.Options) {
		o.DisableValidateResponseChecksum = true // errors of DynamoDB Local have no checksum
	})
	w := &goWorker{api: api, leases: make(map[string]*heldLease)}
	lines, answers := bufio.NewReader(in), json.NewEncoder(out)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var c command
		if err := json.Unmarshal(line, &c); err != nil {
			return fmt.Errorf("decode command %.200q: %w", line, err)
		}
		if err := answers.Encode(w.answer(ctx, c)); err != nil {
			return err
		}
	}
}

func (w *goWorker) answer(ctx context.Context, c command) map[string]any {
	ok, err := w.do(ctx, c)
	if err != nil {
		return answerOf(c.ID, err)
	}
	return map[string]any{"id": c.ID, "ok": ok}
}

func (w *goWorker) do(ctx context.Context, c command) (any, error) {
	pk := store.HashedPartition(store.Key{Text: c.Key})
	switch c.Do {
	case "open":
		return w.open(c)
	case "read":
		return w.read(ctx, pk)
	case "acquire":
		return w.acquire(ctx, pk, c)
	case "versions":
		kept, err := w.store.Versions(ctx, pk)
		return entriesOf(kept), err
	case "break_lease":
		read, err := w.store.Read(ctx, pk)
		if err != nil {
			return nil, err
		}
		return nil, w.store.BreakLease(ctx, read)
	case "rollback", "pin", "unpin":
		return w.declare(ctx, pk, c)
	case "request":
		r, found, err := w.store.RequestRecord(ctx, pk, c.Request)
		if err != nil || !found {
			return nil, err
		}
		return requestOf(r), nil
	case "sequence":
		s, err := w.store.Sequence(ctx)
		return s.Seq, err
	case "changes":
		return w.changes(ctx, c.After)
	case "purge", "marks", "covering":
		return w.doPurge(ctx, c)
	case "race":
		return w.race(ctx, pk, c)
	}
	return w.doHeld(ctx, c)
}

// doPurge executes the commands about purges.
func (w *goWorker) doPurge(ctx context.Context, c command) (any, error) {
	switch c.Do {
	case "purge":
		p := store.Purge{Hard: c.Hard}
		for _, t := range c.Targets {
			of := store.PurgeTarget{Kind: store.PurgeKind(t.Kind), Tenant: t.Tenant, Value: t.Value}
			if of.Kind == store.PurgeKey {
				of.PK = store.HashedPartition(store.Key{Text: t.Value})
			}
			p.Targets = append(p.Targets, of)
		}
		receipt, err := w.store.Purge(ctx, p)
		return receipt.Seq, err
	case "marks":
		marks := []mark{}
		for m, err := range w.store.Marks(ctx) {
			if err != nil {
				return nil, err
			}
			marks = append(marks, markOf(m))
		}
		return marks, nil
	}
	s, err := w.store.Covering(ctx, store.Key{Text: c.Key}, c.Tags)
	return cover{Seq: s.Seq, HardSeq: s.HardSeq, At: vocabulary.SecondOf(s.At), MarkLifetime: int64(s.MarkLifetime / time.Second)}, err
}

func markOf(m store.Mark) mark {
	return mark{
		Target: target{Kind: string(m.Target.Kind), Tenant: m.Target.Tenant, Value: m.Target.Value},
		Seq:    m.Seq, HardSeq: m.HardSeq, At: vocabulary.SecondOf(m.At),
	}
}

// doHeld executes the commands that need a lease.
func (w *goWorker) doHeld(ctx context.Context, c command) (any, error) {
	if c.Do == "keep" {
		return w.keep(ctx, c)
	}
	t := w.leases[c.Key]
	if t == nil {
		return nil, fmt.Errorf("%s: the worker holds no lease for %q", c.Do, c.Key)
	}
	switch c.Do {
	case "refresh":
		return nil, w.store.Refresh(ctx, t.lease)
	case "release":
		return nil, w.store.Release(ctx, t.lease)
	case "back_off":
		return nil, w.store.BackOff(ctx, t.lease, time.Duration(c.PauseMS)*time.Millisecond)
	case "publish":
		next, err := w.publish(ctx, t, c.Entry.ISR(), c.History)
		return vocabulary.EntryOf(&next), err
	case "end_request":
		return nil, w.store.EndRequest(ctx, t.lease, store.RequestEnd{Failure: c.Failure})
	case "await_loss":
		<-t.held.Done()
		t.stop()
		return nil, context.Cause(t.held)
	case "let_go":
		t.stop()
		return nil, w.store.Release(ctx, t.lease)
	}
	return nil, fmt.Errorf("unknown command %q", c.Do)
}

func (w *goWorker) open(c command) (any, error) {
	store, err := dynamostore.New(w.api, c.Table, dynamostore.Config{Owner: c.Owner})
	w.table, w.store = c.Table, store
	clear(w.leases)
	return nil, err
}

func (w *goWorker) read(ctx context.Context, pk string) (any, error) {
	r, err := w.store.Read(ctx, pk)
	if err != nil {
		return nil, err
	}
	p := page{
		Entry: vocabulary.EntryOf(r.Entry),
		Cover: cover{Seq: r.Purges.Seq, HardSeq: r.Purges.HardSeq, At: vocabulary.SecondOf(r.Purges.At)},
	}
	if r.Entry != nil {
		p.State = store.Freshness(r.Entry, r.Purges, time.Now()).String()
	}
	if r.Lock != nil {
		p.Lock = &lock{Owner: r.Lock.Owner, ExpiresAt: vocabulary.SecondOf(r.Lock.ExpiresAt), Failures: r.Lock.Failures}
	}
	if bad, ok := errors.AsType[*dynamostore.MalformedError](r.Malformed); ok {
		p.Malformed = &malformed{PK: bad.PK, SK: bad.SK, Attribute: bad.Attribute}
	}
	return p, nil
}

func (w *goWorker) acquire(ctx context.Context, pk string, c command) (any, error) {
	t, err := w.take(ctx, pk, c)
	if err != nil {
		return nil, err
	}
	w.leases[c.Key] = t
	answer := lease{Failures: t.lease.Failures(), PurgeSeq: t.purgeSeq}
	if t.record.Lock != nil {
		answer.ExpiresAt = vocabulary.SecondOf(t.record.Lock.ExpiresAt)
	}
	return answer, nil
}

// take acquires a lease, and then reads the page and the log sequence in the order that the
// protocol requires.
func (w *goWorker) take(ctx context.Context, pk string, c command) (*heldLease, error) {
	var claimed *store.Claim
	if c.Claim != nil {
		hash, err := store.HashInputs(c.Claim.Inputs)
		if err != nil {
			return nil, err
		}
		claimed = &store.Claim{Key: c.Claim.Key, Hash: hash, Keep: time.Hour}
	}
	l, err := w.store.Acquire(ctx, pk, time.Duration(c.LeaseMS)*time.Millisecond, claimed)
	if err != nil {
		return nil, err
	}
	r, err := w.store.Read(ctx, pk)
	if err != nil {
		return nil, err
	}
	sequence, err := w.store.Sequence(ctx)
	return &heldLease{lease: l, record: r, purgeSeq: sequence.Seq}, err
}

func (w *goWorker) keep(ctx context.Context, c command) (any, error) {
	began := time.Now()
	answer, err := w.acquire(ctx, store.HashedPartition(store.Key{Text: c.Key}), c)
	if err != nil {
		return nil, err
	}
	t := w.leases[c.Key]
	t.held, t.stop = store.KeepLease(ctx, t.lease, began, w.store.Refresh, slog.New(slog.DiscardHandler))
	return answer, nil
}

func (w *goWorker) publish(ctx context.Context, t *heldLease, next store.Entry, history bool) (store.Entry, error) {
	next.PurgeSeq = t.purgeSeq
	return w.store.Publish(ctx, t.lease, t.record, next, store.PublishOptions{History: history})
}

func (w *goWorker) declare(ctx context.Context, pk string, c command) (any, error) {
	read, err := w.store.Read(ctx, pk)
	if err != nil {
		return nil, err
	}
	a := store.Assertion{Key: store.Key{Text: c.Key}, At: time.Now(), PinnedUntil: vocabulary.Moment(c.PinnedUntil)}
	var next store.Entry
	if c.Do == "rollback" {
		next, err = w.store.Rollback(ctx, read, c.To, a)
	} else {
		next, err = w.store.Pin(ctx, read, a)
	}
	return vocabulary.EntryOf(&next), err
}

func (w *goWorker) changes(ctx context.Context, after int64) (any, error) {
	_, found, err := w.store.Changes(ctx, after)
	changes := make([]change, 0, len(found))
	for _, f := range found {
		if f.Malformed != nil {
			return nil, f.Malformed
		}
		c := change{Seq: f.Seq, Reload: []string{}}
		for _, k := range f.Reload {
			c.Reload = append(c.Reload, k.Text)
		}
		for _, m := range f.Marks {
			c.Marks = append(c.Marks, markOf(m))
		}
		changes = append(changes, c)
	}
	return changes, err
}

// answerOf encodes an error, with the name that it has in every language.
func answerOf(id int, err error) map[string]any {
	answer := map[string]any{"id": id, "error": nameOf(err), "message": err.Error()}
	if held, ok := errors.AsType[*store.HeldError](err); ok {
		answer["owner"], answer["expires_at"], answer["failures"] = held.Lock.Owner, vocabulary.SecondOf(held.Lock.ExpiresAt), held.Lock.Failures
	}
	if earlier, ok := errors.AsType[*store.RequestError](err); ok {
		answer["until"] = vocabulary.SecondOf(earlier.Record.InProgressUntil)
		answer["s3_key"], answer["generation_id"] = earlier.Record.BodyKey, earlier.Record.GenerationID
	}
	if bad, ok := errors.AsType[*dynamostore.MalformedError](err); ok {
		answer["pk"], answer["sk"], answer["attribute"] = bad.PK, bad.SK, bad.Attribute
	}
	return answer
}

// nameOf returns the name of an error in every language, or its Go type if it has none.
func nameOf(err error) string {
	if name := vocabulary.ErrorName(err); name != "" {
		return name
	}
	return fmt.Sprintf("%T", err)
}

func entriesOf(kept []store.Entry) []*vocabulary.Entry {
	found := make([]*vocabulary.Entry, 0, len(kept))
	for i := range kept {
		found = append(found, vocabulary.EntryOf(&kept[i]))
	}
	return found
}

func requestOf(r store.RequestRecord) request {
	return request{
		Hash: r.Hash, Status: r.State.String(), BodyKey: r.BodyKey, GenerationID: r.GenerationID,
		Until: vocabulary.SecondOf(r.InProgressUntil), Failure: r.Failure,
	}
}
