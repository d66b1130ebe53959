package spec_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/vocabulary"
	"github.com/facetheory/isr/store"
)

// arguments are the arguments of all calls, each with its only valid type.
type arguments struct {
	Tenant string `json:"tenant"`
	Key    string `json:"key"`

	Now        int64  `json:"now_ms"`
	Duration   int64  `json:"lease_duration_ms"`
	RequestKey string `json:"request_key"`
	Hash       string `json:"request_hash"`
	Keep       int64  `json:"keep_seconds"`

	GeneratedAtMS  int64  `json:"generated_at_ms"`
	TTLUnixSeconds int64  `json:"ttl_unix_seconds"`
	HTMLPointer    string `json:"html_pointer"`
	Superseded     int64  `json:"superseded_at"`

	vocabulary.Entry
}

type call struct {
	Name      string          `json:"name"`
	Call      string          `json:"call"`
	Arguments json.RawMessage `json:"arguments"`
	Error     string          `json:"error"`
}

func TestRefused(t *testing.T) {
	type file struct {
		Calls []call `json:"calls"`
	}
	run(t, "refused.json", func(f *file) {
		for i := range f.Calls {
			v := &f.Calls[i]
			if v.Error = nameOf(t, v.execute(t)); v.Error == "" {
				t.Errorf("%s: accepted", v.Name)
			}
		}
	})
}

// execute executes the call on an empty table.
func (v *call) execute(t *testing.T) error {
	t.Helper()
	a, err := v.arguments()
	if err != nil {
		return err
	}
	tb := newTable(t, a.Now)
	switch v.Call {
	case "hashed_partition":
		return tb.readKey(store.Key{Tenant: a.Tenant, Text: a.Key}, store.HashedPartition)
	case "raw_partition":
		return tb.readKey(store.Key{Tenant: a.Tenant, Text: a.Key}, store.RawPartition)
	case "request_key":
		return store.ValidRequestKey(a.Key)
	case "acquire":
		return tb.tryAcquire(a)
	case "publish":
		return tb.publish(a)
	case "commit_generation":
		a.GeneratedAt, a.TTL, a.BodyKey = a.GeneratedAtMS/1000, a.TTLUnixSeconds, a.HTMLPointer
		return tb.publish(a)
	case "pin":
		return tb.pin(a)
	}
	t.Fatalf("unknown call %q", v.Call)
	return nil
}

// arguments returns valid arguments, overridden by the vector's. A type that
// the Go compiler would refuse is an error here.
func (v *call) arguments() (*arguments, error) {
	good := goodEntry()
	a := &arguments{
		Key: cacheKey, Now: 1_800_000_000_000, Duration: 30_000, RequestKey: "r", Hash: "h", Keep: 3600, Entry: good,
		GeneratedAtMS: good.GeneratedAt * 1000, TTLUnixSeconds: good.GeneratedAt + 86400, HTMLPointer: good.BodyKey,
	}
	d := json.NewDecoder(bytes.NewReader(v.Arguments))
	d.DisallowUnknownFields()
	err := d.Decode(a)
	if _, wrong := errors.AsType[*json.UnmarshalTypeError](err); wrong {
		return nil, fmt.Errorf("%w: %w", store.ErrInvalidInput, err)
	}
	return a, err
}

// readKey derives the partition of a key, and reads it, as the cache does.
func (tb *table) readKey(k store.Key, partition store.Partition) error {
	if err := store.ValidKey(k); err != nil {
		return err
	}
	_, err := tb.store.Read(tb.ctx(), partition(k))
	return err
}

func (tb *table) tryAcquire(a *arguments) error {
	claim := &store.Claim{Key: a.RequestKey, Hash: a.Hash, Keep: seconds(a.Keep)}
	_, err := tb.store.Acquire(tb.ctx(), partitionKey(), milliseconds(a.Duration), claim)
	if err != nil && len(tb.all()) > 0 {
		tb.t.Errorf("the refused acquisition wrote rows: %v", tb.all())
	}
	return err
}

func (tb *table) publish(a *arguments) error {
	l := tb.acquire(30_000, nil)
	how := store.PublishOptions{History: true, Superseded: vocabulary.Moment(a.Superseded)}
	_, err := tb.store.Publish(tb.ctx(), l, tb.read(), a.Entry.ISR(), how)
	if rec := tb.read(); err != nil && (rec.Entry != nil || rec.Lock == nil) {
		tb.t.Errorf("the refused publish changed the rows: %+v", rec)
	}
	return err
}

func (tb *table) pin(a *arguments) error {
	e := goodEntry().ISR()
	if _, err := tb.store.Publish(tb.ctx(), tb.acquire(30_000, nil), tb.read(), e, store.PublishOptions{}); err != nil {
		tb.t.Fatal(err)
	}
	_, err := tb.store.Pin(tb.ctx(), tb.read(), store.Assertion{
		Key: store.Key{Text: cacheKey}, At: time.UnixMilli(a.Now), PinnedUntil: vocabulary.Moment(a.PinnedUntil), Expires: vocabulary.Moment(a.TTL),
	})
	return err
}
