package dynamostore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/store"
)

// TestStaleWriters: the reference's list of protections against stale writers. Each
// refuses its own case independently of the others, and three of them cannot be
// disabled.
func TestStaleWriters(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		for name, writer := range staleWriters() {
			for _, guards := range []dynamostore.Guards{{}, {Monotonic: true}, {Version: true}, {Monotonic: true, Version: true}} {
				t.Run(fmt.Sprintf("%s/%+v", name, guards), func(t *testing.T) {
					f := f.with(t)
					f.store = newStore(t, db, f.raw.name, dynamostore.Config{Now: f.clock.Now, Guards: guards})
					writer.try(t, f, guards)
				})
			}
		}
	})
}

// A staleWriter holds a lease and has read the page.
type staleWriter struct {
	// stale makes it a stale writer.
	stale func(f *fixture)
	// generated is the start of its render, relative to the start of the current generation's render.
	generated time.Duration
	want      error
	passes    func(dynamostore.Guards) bool
}

// try publishes as the stale writer.
func (w staleWriter) try(t *testing.T, f *fixture, guards dynamostore.Guards) {
	for _, sk := range []string{"LOCK", "META", "VER#g1", "VER#g2"} {
		f.raw.set(pk, sk, nil)
	}
	first := f.keep("g1")
	l, read := f.acquire(), f.read()
	next := f.entry("g2")
	next.GeneratedAt = first.GeneratedAt.Add(w.generated)
	w.stale(f)
	before := f.raw.get(pk, "META")
	_, err := f.store.Publish(t.Context(), l, read, next, store.PublishOptions{History: true})
	if w.passes(guards) {
		if err != nil {
			t.Errorf("Publish: %v", err)
		}
		return
	}
	if !errors.Is(err, w.want) {
		t.Errorf("Publish: %v, want %v", err, w.want)
	}
	if d := diff(before, f.raw.get(pk, "META")); d != "" || f.raw.get(pk, "VER#g2") != nil {
		t.Errorf("the page changed:\n%s", d)
	}
}

func staleWriters() map[string]staleWriter {
	never := func(dynamostore.Guards) bool { return false }
	return map[string]staleWriter{
		"lease token": {
			stale: func(f *fixture) {
				lock := f.raw.get(pk, "LOCK")
				lock["lease_token"] = str("another's")
				f.raw.put(pk, "LOCK", lock)
			},
			generated: time.Second, want: store.ErrLeaseLost, passes: never,
		},
		"no lease": {
			stale:     func(f *fixture) { f.raw.set(pk, "LOCK", nil) },
			generated: time.Second, want: store.ErrLeaseLost, passes: never,
		},
		"lease expiry": {
			stale:     func(f *fixture) { f.clock.Advance(31 * time.Second) },
			generated: time.Second, want: store.ErrLeaseLost, passes: never,
		},
		"fence": {
			stale: func(f *fixture) {
				meta := f.raw.get(pk, "META")
				meta["s3_key"] = str("pages/theirs.html")
				f.raw.put(pk, "META", meta)
			},
			generated: time.Second, want: store.ErrMoved, passes: never,
		},
		"optimistic version": {
			stale: func(f *fixture) {
				meta := f.raw.get(pk, "META")
				meta["version"] = num("8")
				f.raw.put(pk, "META", meta)
			},
			generated: time.Second, want: store.ErrMoved, passes: func(g dynamostore.Guards) bool { return !g.Version },
		},
		"monotonic timestamp": {
			stale:     func(*fixture) {},
			generated: -time.Second, want: store.ErrMoved, passes: func(g dynamostore.Guards) bool { return !g.Monotonic },
		},
		"monotonic, same second": {
			stale:     func(*fixture) {},
			generated: 0, want: store.ErrMoved, passes: func(g dynamostore.Guards) bool { return !g.Monotonic },
		},
		"none": {
			stale:     func(*fixture) {},
			generated: time.Second, passes: func(dynamostore.Guards) bool { return true },
		},
	}
}

// TestGuardVersion: with the guard the number counts all our writes, whatever it was
// before; without the guard it is preserved.
func TestGuardVersion(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		guarded := newStore(t, db, f.raw.name, dynamostore.Config{Now: f.clock.Now, Guards: dynamostore.Guards{Version: true}})
		want := func(n string) {
			t.Helper()
			if d := diff(num(n), f.raw.get(pk, "META")["version"]); d != "" {
				t.Errorf("version (-want +got):\n%s", d)
			}
		}
		f.keep("g1")
		if found := f.raw.get(pk, "META")["version"]; found != nil {
			t.Errorf("version without the guard: %v", found)
		}
		plain := f.store
		f.store = guarded
		f.keep("g2")
		want("1")
		f.rollback("g1", f.assertion())
		want("2")
		if _, err := guarded.Pin(t.Context(), f.read(), f.assertion()); err != nil {
			t.Fatal(err)
		}
		want("3")
		f.store = plain
		f.keep("g3")
		want("3")
		f.store = guarded
		for before, after := range map[string]string{"41": "42", "5.5": "6", "-7": "1"} {
			f.setVersion(num(before))
			f.publish(f.entry("h" + after))
			want(after)
		}
		f.setVersion(null())
		f.publish(f.entry("h"))
		want("1")
		f.setVersion(str("text"))
		f.publish(f.entry("i"))
		want("1")
		read := f.read()
		f.setVersion(num("9"))
		if _, err := guarded.Rollback(t.Context(), read, "g1", f.assertion()); !errors.Is(err, store.ErrMoved) {
			t.Errorf("Rollback after a write of another service: %v, want ErrMoved", err)
		}
	})
}

func (f *fixture) setVersion(n types.AttributeValue) {
	f.t.Helper()
	meta := f.raw.get(pk, "META")
	meta["version"] = n
	f.raw.put(pk, "META", meta)
}

// TestGuardMonotonic: after a rollback any newer generation can be published, and
// rows with a missing or malformed time are no obstacle.
func TestGuardMonotonic(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		f.store = newStore(t, db, f.raw.name, dynamostore.Config{Now: f.clock.Now, Guards: dynamostore.Guards{Monotonic: true}})
		f.keep("g1")
		f.clock.Advance(time.Minute)
		between := f.entry("g3")
		f.clock.Advance(time.Minute)
		f.keep("g2")
		l := f.acquire()
		_, err := f.store.Publish(t.Context(), l, f.read(), between, store.PublishOptions{})
		if !errors.Is(err, store.ErrMoved) || !strings.Contains(err.Error(), "began to render") {
			t.Errorf("Publish of an older one: %v, want ErrMoved that says why", err)
		}
		if err := f.store.Release(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		f.rollback("g1", f.assertion())
		f.publish(between)
		for _, generated := range []types.AttributeValue{str("soon"), null(), nil} {
			meta := f.raw.get(pk, "META")
			meta["generated_at"] = generated
			if generated == nil {
				delete(meta, "generated_at")
			}
			f.raw.put(pk, "META", meta)
			f.publish(f.entry("g4"))
		}
	})
}
