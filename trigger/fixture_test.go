package trigger_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/localdynamo/localdynamotest"
	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/trigger"
)

// A fixture is a Debouncer on a real table, whose purges are counted.
type fixture struct {
	*trigger.Debouncer
	table  *dynamostore.Store
	purger *purger
	log    *lockedBuffer
}

func newFixture(t *testing.T, cfg trigger.Config) *fixture {
	t.Helper()
	api := localdynamotest.New(t)
	if err := dynamostore.CreateTable(t.Context(), api, "pages"); err != nil {
		t.Fatal(err)
	}
	table, err := dynamostore.New(api, "pages", dynamostore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{table: table, purger: new(purger), log: new(lockedBuffer)}
	cfg.Logger = slog.New(slog.NewTextHandler(f.log, nil))
	f.Debouncer = trigger.NewDebouncer(f.purger, table, cfg)
	t.Cleanup(func() {
		if err := f.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return f
}

// A lockedBuffer is a log that may be read while it is written.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// A purger records the purges, and fails them if the test asks for it.
type purger struct {
	mu     sync.Mutex
	purges []isr.Purge
	fail   func(isr.Purge) error
}

func (p *purger) Purge(_ context.Context, purge isr.Purge) (store.Receipt, error) {
	if len(purge.Targets) == 0 || len(purge.Targets) > store.MaxPurgeTargets {
		return store.Receipt{}, errors.New("a store would refuse this number of targets")
	}
	p.mu.Lock()
	fail := p.fail
	p.mu.Unlock()
	if fail != nil { // without the lock, for which synctest does not wait
		if err := fail(purge); err != nil {
			return store.Receipt{}, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.purges = append(p.purges, purge)
	return store.Receipt{Seq: int64(len(p.purges))}, nil
}

func (p *purger) made() []isr.Purge {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.purges)
}

func (p *purger) failWith(fail func(isr.Purge) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail = fail
}

func tag(value string) store.PurgeTarget {
	return store.PurgeTarget{Kind: store.PurgeTag, Value: value}
}

func message(id string, targets ...store.PurgeTarget) trigger.Message {
	return trigger.Message{Source: "test", ID: id, Targets: targets}
}

// A result is what Submit returned, and when.
type result struct {
	trigger.Outcome
	err   error
	after time.Duration
}

// submit calls Submit in the background.
func (f *fixture) submit(t *testing.T, m trigger.Message) <-chan result {
	t.Helper()
	began, done := time.Now(), make(chan result, 1)
	go func() {
		outcome, err := f.Submit(t.Context(), m)
		done <- result{outcome, err, time.Since(began)}
	}()
	return done
}
