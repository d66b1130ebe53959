package trigger_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/internal/testbed"
	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/trigger"
)

// A fixture is a Debouncer on a real table, whose purges are counted.
type fixture struct {
	*trigger.Debouncer
	table  *dynamostore.Store
	purger *purger
	log    *testbed.Log
}

func newFixture(t *testing.T, cfg trigger.Config) *fixture {
	t.Helper()
	f := &fixture{table: testbed.Table(t), purger: new(purger), log: new(testbed.Log)}
	cfg.Logger = slog.New(slog.NewTextHandler(f.log, nil))
	f.Debouncer = trigger.NewDebouncer(f.purger, f.table, cfg)
	t.Cleanup(func() {
		if err := f.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return f
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

// NotStored says that the pages whose keys end in "missing" are.
func (p *purger) NotStored(_ context.Context, targets []store.PurgeTarget) (missing []store.Key, err error) {
	for _, t := range targets {
		if t.Kind == store.PurgeKey && strings.HasSuffix(t.Value, "missing") {
			missing = append(missing, store.Key{Tenant: t.Tenant, Text: t.Value})
		}
	}
	return missing, nil
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
