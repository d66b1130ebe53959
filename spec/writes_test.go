package spec_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/internal/vocabulary"
	"github.com/facetheory/isr/store"
)

type operation struct {
	Name   string   `json:"name"`
	Now    int64    `json:"now_ms"`
	Owner  string   `json:"owner"`
	Tokens []string `json:"tokens"`
	Before []item   `json:"before"`
	Steps  []step   `json:"steps"`
	After  []item   `json:"after"`
}

// A step is one call of the store with its arguments.
type step struct {
	Do          string            `json:"do"`
	Now         int64             `json:"now_ms,omitempty"`
	Duration    int64             `json:"lease_duration_ms,omitempty"`
	Claim       *claim            `json:"claim,omitempty"`
	Pause       int64             `json:"pause_ms,omitempty"`
	Entry       *vocabulary.Entry `json:"entry,omitempty"`
	History     bool              `json:"history,omitempty"`
	Unchanged   bool              `json:"unchanged,omitempty"`
	Unpin       bool              `json:"unpin,omitempty"`
	To          string            `json:"to,omitempty"`
	AssertedAt  int64             `json:"asserted_at,omitempty"`
	PinnedUntil int64             `json:"pinned_until,omitempty"`
	TTL         int64             `json:"ttl,omitempty"`
	Superseded  int64             `json:"superseded_at,omitempty"`
	Failure     string            `json:"failure,omitempty"`
	Result      *result           `json:"result,omitempty"`
	Targets     []target          `json:"targets,omitempty"`
	Hard        bool              `json:"hard,omitempty"`
	Confirm     bool              `json:"confirm,omitempty"`
	Build       string            `json:"build,omitempty"`
	Seq         int64             `json:"seq,omitempty"`
	Error       string            `json:"error,omitempty"`
}

type claim struct {
	Key  string `json:"key"`
	Hash string `json:"request_hash"`
	Keep int64  `json:"keep_seconds"`
}

func (c *claim) claim() *store.Claim {
	if c == nil {
		return nil
	}
	return &store.Claim{Key: c.Key, Hash: c.Hash, Keep: seconds(c.Keep)}
}

type result struct {
	BodyKey      string `json:"s3_key"`
	GenerationID string `json:"generation_id"`
}

func TestWrites(t *testing.T) {
	type file struct {
		CacheKey   string      `json:"cache_key"`
		PK         string      `json:"pk"`
		Operations []operation `json:"operations"`
	}
	run(t, "writes.json", func(f *file) {
		f.CacheKey, f.PK = cacheKey, partitionKey()
		for i := range f.Operations {
			f.Operations[i].answer(t)
		}
	})
}

func (o *operation) answer(t *testing.T) {
	t.Helper()
	tb := newTable(t, o.Now, o.Before...)
	tb.tokens = o.Tokens
	tb.open(o.Owner)
	c := caller{table: tb}
	for i := range o.Steps {
		s := &o.Steps[i]
		s.Error = nameOf(t, c.execute(s))
	}
	o.After = tb.all()
	for _, row := range o.After {
		if row.isLog() && row.text("id") != "" {
			row["id"] = text("*")
		}
	}
}

// A caller executes the steps of an operation.
type caller struct {
	*table
	lease  store.Lease
	record *store.Record
}

// current returns the record that the last read step returned, or reads it.
func (c *caller) current() store.Record {
	if c.record != nil {
		return *c.record
	}
	return c.read()
}

func (c *caller) execute(s *step) error {
	switch ctx := c.ctx(); s.Do {
	case "clock":
		c.clock.Set(time.UnixMilli(s.Now))
	case "read":
		rec := c.read()
		c.record = &rec
	case "acquire":
		l, err := c.store.Acquire(ctx, partitionKey(), milliseconds(s.Duration), s.Claim.claim())
		if err != nil {
			return err
		}
		c.lease = l
	case "refresh":
		return c.store.Refresh(ctx, c.lease)
	case "release":
		return c.store.Release(ctx, c.lease)
	case "back_off":
		return c.store.BackOff(ctx, c.lease, milliseconds(s.Pause))
	case "break_lease":
		return c.store.BreakLease(ctx, c.current())
	case "publish":
		how := store.PublishOptions{History: s.History, Superseded: vocabulary.Moment(s.Superseded), Unchanged: s.Unchanged, Unpin: s.Unpin, Key: store.Key{Text: cacheKey}}
		_, err := c.store.Publish(ctx, c.lease, c.current(), s.Entry.ISR(), how)
		return err
	case "rollback":
		_, err := c.store.Rollback(ctx, c.current(), s.To, s.assertion())
		return err
	case "pin":
		_, err := c.store.Pin(ctx, c.current(), s.assertion())
		return err
	case "purge":
		receipt, err := c.store.Purge(ctx, s.purge())
		s.Seq = receipt.Seq
		return err
	case "build":
		seq, err := c.store.Build(ctx, s.Build)
		s.Seq = seq
		return err
	case "end_request":
		return c.store.EndRequest(ctx, c.lease, s.end())
	default:
		c.t.Fatalf("unknown step %q", s.Do)
	}
	return nil
}

func (s *step) assertion() store.Assertion {
	return store.Assertion{
		Key: store.Key{Text: cacheKey}, At: vocabulary.Moment(s.AssertedAt), PinnedUntil: vocabulary.Moment(s.PinnedUntil),
		Expires: vocabulary.Moment(s.TTL), Superseded: vocabulary.Moment(s.Superseded),
	}
}

func (s *step) end() store.RequestEnd {
	if s.Result == nil {
		return store.RequestEnd{Failure: s.Failure}
	}
	return store.RequestEnd{Result: &store.Entry{BodyKey: s.Result.BodyKey, GenerationID: s.Result.GenerationID}}
}

// text returns a string attribute, or "" if there is none.
func (i item) text(name string) string {
	s, ok := i[name].(*types.AttributeValueMemberS)
	if !ok {
		return ""
	}
	return s.Value
}
