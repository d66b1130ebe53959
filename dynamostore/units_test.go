package dynamostore_test

import (
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/dynamostore"
)

// A meter is an engine that adds up what its calls consume.
type meter struct {
	dynamostore.API
	reads, writes float64
}

func (m *meter) add(c *types.ConsumedCapacity, write bool) {
	switch {
	case c == nil || c.CapacityUnits == nil:
	case write:
		m.writes += *c.CapacityUnits
	default:
		m.reads += *c.CapacityUnits
	}
}

func (m *meter) GetItem(ctx context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := m.API.GetItem(ctx, in)
	if err == nil {
		m.add(out.ConsumedCapacity, false)
	}
	return out, err
}

func (m *meter) Query(ctx context.Context, in *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := m.API.Query(ctx, in)
	if err == nil {
		m.add(out.ConsumedCapacity, false)
	}
	return out, err
}

func (m *meter) PutItem(ctx context.Context, in *dynamodb.PutItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := m.API.PutItem(ctx, in)
	if err == nil {
		m.add(out.ConsumedCapacity, true)
	}
	return out, err
}

func (m *meter) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, _ ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := m.API.TransactWriteItems(ctx, in)
	if err == nil {
		for _, consumed := range out.ConsumedCapacity {
			m.add(&consumed, true)
		}
	}
	return out, err
}

// TestUnits: what a page costs, as it is billed. A read costs one unit, lease and
// purge included; a regeneration three (two reads, and the purge sequence) and
// five writes.
func TestUnits(t *testing.T) {
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		f.publish(f.entry("g1"))
		f.raw.put(pk, "PURGE", attrs{"seq": num("1"), "at": num("1")})
		f.raw.put("PURGE", "SEQ", attrs{"seq": num("1"), "mark_lifetime": num("86400")})
		m := &meter{API: db}
		f.store = newStore(t, m, f.raw.name, dynamostore.Config{Now: f.clock.Now})

		l := f.acquire()
		f.read()
		if m.reads != 1 || m.writes != 1 {
			t.Errorf("a lease and a read cost %v writes and %v reads, want 1, 1", m.writes, m.reads)
		}
		if _, err := f.store.Sequence(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := f.store.Publish(t.Context(), l, f.read(), f.entry("g2"), isr.Publishing{}); err != nil {
			t.Fatal(err)
		}
		if m.reads != 3 || m.writes != 5 {
			t.Errorf("a regeneration costs %v writes and %v reads, want 5, 3", m.writes, m.reads)
		}
	})
}
