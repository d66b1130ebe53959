package guard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/facetheory/isr/store"
)

// An observer records the calls that it was notified of.
type observer struct {
	mu    sync.Mutex
	calls []string // guarded by mu: name, size and error
}

func (o *observer) begin(ctx context.Context, name string) (context.Context, func(int64, error)) {
	return ctx, func(size int64, err error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.calls = append(o.calls, fmt.Sprint(name, " ", size, " ", err))
	}
}

// newStores returns guarded stores, whose probes end with the test.
func newStores(t *testing.T, meta store.MetaStore, bodies store.BodyStore, o *observer) *Stores {
	ctx, cancel := context.WithCancel(t.Context())
	var probes sync.WaitGroup
	t.Cleanup(func() { cancel(); probes.Wait() })
	return New(ctx, meta, bodies, Options{
		Table: o.begin, Bodies: o.begin, MaxBody: 1 << 20,
		Sequence: func(store.Sequence) {}, Destinations: func() []string { return nil }, Changed: func() {},
		Go: probes.Go, Now: time.Now, Jitter: func(d time.Duration) time.Duration { return d },
		Log: slog.New(slog.DiscardHandler),
	})
}

// kebab returns the name of a method as observers get it.
func kebab(method string) string {
	var name strings.Builder
	for n, r := range method {
		if unicode.IsUpper(r) && n > 0 {
			name.WriteByte('-')
		}
		name.WriteRune(unicode.ToLower(r))
	}
	return name.String()
}

type aLease struct{ store.Lease }

func (aLease) PK() string { return "pk" }

// Observers are notified of each method of the stores, by its name, except of those that a cache does not
// call: the outbox, and the list of what is quarantined.
func TestEveryMethodIsObserved(t *testing.T) {
	outbox := reflect.TypeFor[store.OutboxStore]()
	for of, guarded := range map[reflect.Type]func(*Stores) any{
		reflect.TypeFor[store.MetaStore](): func(s *Stores) any { return s.Meta },
		reflect.TypeFor[store.BodyStore](): func(s *Stores) any { return s.Bodies },
	} {
		for method := range of.Methods() {
			if _, ofOutbox := outbox.MethodByName(method.Name); ofOutbox || method.Name == "AllQuarantined" {
				continue
			}
			var names []string
			s := New(t.Context(), struct{ store.MetaStore }{}, struct{ store.BodyStore }{}, Options{Destinations: func() []string { return nil }})
			begin := func(ctx context.Context, name string) (context.Context, func(int64, error)) {
				names = append(names, name)
				return ctx, func(int64, error) {}
			}
			s.Meta.(*guardedTable).begin, s.Bodies.(*guardedBodies).begin = begin, begin
			called := reflect.ValueOf(guarded(s)).MethodByName(method.Name)
			func() {
				defer func() { _ = recover() }() // there is no store below
				args := make([]reflect.Value, 0, called.Type().NumIn())
				for in := range called.Type().Ins() {
					switch in {
					case reflect.TypeFor[context.Context]():
						args = append(args, reflect.ValueOf(t.Context()))
					case reflect.TypeFor[store.Lease]():
						args = append(args, reflect.ValueOf(aLease{}))
					default:
						args = append(args, reflect.Zero(in))
					}
				}
				if got := called.Call(args); got[0].Kind() == reflect.Func {
					for range got[0].Seq2() {
						break
					}
				}
			}()
			if want := []string{kebab(method.Name)}; !slices.Equal(names, want) {
				t.Errorf("%v.%s is observed as %q, want %q", of, method.Name, names, want)
			}
		}
	}
}

// deletions records calls of Delete, which fail for the body "denied".
type deletions struct {
	store.BodyStore
	calls []string
}

func (d *deletions) Delete(_ context.Context, key string) error {
	if d.calls = append(d.calls, key); key == "denied" {
		return store.ErrDenied
	}
	return nil
}

func (d *deletions) called() []string { return d.calls }

// inBatches deletes several bodies with one call.
type inBatches struct{ deletions }

func (d *inBatches) DeleteBatch(_ context.Context, keys []string) (deleted int, err error) {
	d.calls = append(d.calls, strings.Join(keys, "+"))
	if at := slices.Index(keys, "denied"); at >= 0 {
		return at, store.ErrDenied
	}
	return len(keys), nil
}

// Garbage collection deletes bodies by the guarded store: with few calls if the store can, which are
// observed.
func TestBodiesAreDeletedInBatches(t *testing.T) {
	for _, test := range []struct {
		bodies interface {
			store.BodyStore
			called() []string
		}
		calls, observed []string
	}{
		{&deletions{}, []string{"a", "denied"}, []string{"delete 0 <nil>", "delete 0 " + store.ErrDenied.Error()}},
		{&inBatches{}, []string{"a+denied+b"}, []string{"delete-batch 0 " + store.ErrDenied.Error()}},
	} {
		var o observer
		s := newStores(t, nil, test.bodies, &o)
		n, err := store.DeleteBodies(t.Context(), s.Bodies, []string{"a", "denied", "b"})
		if n != 1 || !errors.Is(err, store.ErrDenied) {
			t.Errorf("%T: %d deleted, %v", test.bodies, n, err)
		}
		if got := test.bodies.called(); !slices.Equal(got, test.calls) {
			t.Errorf("%T: calls %q, want %q", test.bodies, got, test.calls)
		}
		if !slices.Equal(o.calls, test.observed) {
			t.Errorf("%T: observed %q, want %q", test.bodies, o.calls, test.observed)
		}
	}
}

// aBody is a body whose reads may fail or hang.
type aBody struct {
	io.Reader
	ctx   context.Context //nolint:containedctx // of the call
	fails error
	hangs bool
}

func (b *aBody) Read(p []byte) (int, error) {
	if b.hangs {
		<-b.ctx.Done()
		return 0, b.ctx.Err()
	}
	if b.fails != nil {
		return 0, b.fails
	}
	return b.Reader.Read(p)
}

func (b *aBody) Close() error { return nil }

// someBodies have one body under every key, unless they hang or fail.
type someBodies struct {
	store.BodyStore
	hangs, reads atomic.Bool // reads: only reading hangs
	fails        atomic.Pointer[error]
	asked        atomic.Int64
}

var content = []byte("content")

func (b *someBodies) ask(ctx context.Context) error {
	b.asked.Add(1)
	if b.hangs.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	if fails := b.fails.Load(); fails != nil {
		return *fails
	}
	return nil
}

func (b *someBodies) Stat(ctx context.Context, _ string) (store.BodyInfo, error) {
	return store.BodyInfo{}, b.ask(ctx)
}

func (b *someBodies) Open(ctx context.Context, _ string) (io.ReadCloser, int64, error) {
	if err := b.ask(ctx); err != nil {
		return nil, 0, err
	}
	return &aBody{bytes.NewReader(content), ctx, nil, b.reads.Load()}, int64(len(content)), nil
}

func (b *someBodies) OpenRange(ctx context.Context, key string, _, _ int64) (io.ReadCloser, int64, error) {
	return b.Open(ctx, key)
}

// Calls of a store that hangs end by their deadlines. Three bodies that cannot be read open the circuit
// breaker, which a probe closes; background work is not bounded.
func TestDeadlinesAndBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bodies := new(someBodies)
		s := newStores(t, nil, bodies, new(observer))
		bodies.hangs.Store(true)
		began := time.Now()
		for n := range 3 {
			if s.Down() != nil {
				t.Fatalf("open after %d failures", n)
			}
			if _, err := s.Bodies.Stat(t.Context(), fmt.Sprint(n)); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != 3*bodyTimeout || s.Down() == nil || !s.BodiesDown() || !slices.Equal(s.Names(), []string{"bodies"}) {
			t.Errorf("after %v: down %v", took, s.Names())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began = time.Now()
		if _, _, err := s.Observed.Open(ctx, "codings"); err == nil || time.Since(began) != time.Hour {
			t.Errorf("background work ended after %v: %v", time.Since(began), err)
		}
		bodies.hangs.Store(false)
		time.Sleep(time.Minute)
		if s.Down() != nil {
			t.Error("open although the store answers")
		}
	})
}

// Declared errors are answers, except a denial. A canceled call proves nothing about the store.
func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bodies := new(someBodies)
		s := newStores(t, nil, bodies, new(observer))
		s.o.Answers = []error{io.ErrNoProgress}
		failWith := func(err error) {
			bodies.fails.Store(&err)
			for n := range 10 {
				_, _ = s.Bodies.Stat(t.Context(), fmt.Sprint(n))
			}
		}
		for _, answer := range []error{store.ErrNotFound, fmt.Errorf("reading: %w", store.ErrInvalidKey), &store.HeldError{}, io.ErrNoProgress} {
			if failWith(answer); s.Down() != nil {
				t.Errorf("%v opens the circuit breaker", answer)
			}
		}
		bodies.hangs.Store(true)
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		for n := range 10 {
			if _, err := s.Bodies.Stat(canceled, fmt.Sprint(n)); err == nil || s.Down() != nil {
				t.Errorf("a caller who cancels: %v, down %v", err, s.Names())
			}
		}
		bodies.hangs.Store(false)
		if failWith(store.ErrDenied); s.Down() == nil {
			t.Error("a store that denies access is not down")
		}
	})
}

// A body ends its observation when it is closed, and its failure counts at once. A range has a
// deadline for each read.
func TestReadingBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bodies, o := new(someBodies), new(observer)
		s := newStores(t, nil, bodies, o)
		rd, n, err := s.Bodies.Open(t.Context(), "whole")
		if err != nil || n != int64(len(content)) {
			t.Fatal(n, err)
		}
		if got, err := io.ReadAll(rd); err != nil || !bytes.Equal(got, content) || len(o.calls) != 0 {
			t.Errorf("%q, %v, %q", got, err, o.calls)
		}
		if err := rd.Close(); err != nil || !slices.Equal(o.calls, []string{"open 7 <nil>"}) {
			t.Errorf("%v, %q", err, o.calls)
		}
		bodies.reads.Store(true)
		for n := range 3 {
			rd, _, err := store.OpenRange(t.Context(), s.Bodies, fmt.Sprint(n), 0, 1)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour) // a slow visitor
			began := time.Now()
			if _, err := rd.Read(make([]byte, 1)); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != bodyTimeout {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
			if (n == 2) != s.BodiesDown() {
				t.Errorf("down %t after %d bodies that cannot be read", s.BodiesDown(), n+1)
			}
			if err := rd.Close(); err != nil {
				t.Error(err)
			}
		}
		if last := o.calls[len(o.calls)-1]; !strings.HasPrefix(last, "open-range 0 context") {
			t.Errorf("observed %q", last)
		}
	})
}

// Of many complaints, one in ten seconds is written, with the number of the others.
func TestComplaints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		c := NewComplaints(slog.New(slog.NewTextHandler(&out, nil)), slog.LevelWarn)
		for range 100 {
			c.Log("failed")
		}
		time.Sleep(complaintPause)
		c.Log("failed")
		if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 2 || !strings.HasSuffix(lines[1], "level=WARN msg=failed more_since_last=99") {
			t.Errorf("%q", lines)
		}
	})
}
