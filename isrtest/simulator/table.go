package simulator

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory"
)

// A gatedTable is the table as seen by one life of a node.
type gatedTable struct {
	life   *life
	engine Engine // called only by the driver
}

var _ tabletheory.API = (*gatedTable)(nil)

type options = func(*dynamodb.Options)

// call describes a request for one row.
func (g *gatedTable) call(op string, k kind, e errand, key item) *call {
	pk, sk := textOf(key, "pk"), textOf(key, "sk")
	return &call{life: g.life, op: op + " " + g.life.w.rowName(pk, sk), pks: []string{pk}, kind: k, errand: e}
}

func (g *gatedTable) GetItem(ctx context.Context, in *dynamodb.GetItemInput, _ ...options) (*dynamodb.GetItemOutput, error) {
	return pass(ctx, g.life.w.gate, g.call("get", reading, g.life.w.errandOfRead(textOf(in.Key, "pk")), in.Key), func() (*dynamodb.GetItemOutput, error) {
		return g.engine.GetItem(context.Background(), in)
	})
}

func (g *gatedTable) PutItem(ctx context.Context, in *dynamodb.PutItemInput, _ ...options) (*dynamodb.PutItemOutput, error) {
	noteLease(ctx, in.Item)
	e := other
	if textOf(in.Item, "sk") == "LOCK" {
		e = acquiring
	}
	return pass(ctx, g.life.w.gate, g.call("put", writing, e, in.Item), func() (*dynamodb.PutItemOutput, error) {
		return g.engine.PutItem(context.Background(), in)
	})
}

func (g *gatedTable) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, _ ...options) (*dynamodb.UpdateItemOutput, error) {
	return pass(ctx, g.life.w.gate, g.call("update", writing, errandOfUpdate(in), in.Key), func() (*dynamodb.UpdateItemOutput, error) {
		return g.engine.UpdateItem(context.Background(), in)
	})
}

func (g *gatedTable) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, _ ...options) (*dynamodb.DeleteItemOutput, error) {
	e := other
	if textOf(in.Key, "sk") == "LOCK" {
		e = releasing
	}
	c := g.call("delete", writing, e, in.Key)
	c.values = in.ExpressionAttributeValues
	return pass(ctx, g.life.w.gate, c, func() (*dynamodb.DeleteItemOutput, error) {
		return g.engine.DeleteItem(context.Background(), in)
	})
}

// Query reads one partition; the value that names a page is its key.
func (g *gatedTable) Query(ctx context.Context, in *dynamodb.QueryInput, _ ...options) (*dynamodb.QueryOutput, error) {
	c := &call{life: g.life, kind: reading, op: "query PURGE", errand: readingLog, aside: isAside(ctx), note: noteOf(ctx)}
	for _, v := range in.ExpressionAttributeValues {
		if s, ok := v.(*types.AttributeValueMemberS); ok && g.life.w.pageOf(s.Value) != nil {
			c.pks = []string{s.Value}
			c.op, c.errand = "query "+g.life.w.rowName(s.Value, ""), readingPage
		}
	}
	return pass(ctx, g.life.w.gate, c, func() (*dynamodb.QueryOutput, error) {
		return g.engine.Query(context.Background(), in)
	})
}

func (g *gatedTable) Scan(ctx context.Context, in *dynamodb.ScanInput, _ ...options) (*dynamodb.ScanOutput, error) {
	// The segments of a scan run concurrently.
	c := &call{life: g.life, kind: reading, op: fmt.Sprint("scan ", aws.ToInt32(in.Segment)), errand: other}
	return pass(ctx, g.life.w.gate, c, func() (*dynamodb.ScanOutput, error) { return g.engine.Scan(context.Background(), in) })
}

func (g *gatedTable) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, _ ...options) (*dynamodb.BatchGetItemOutput, error) {
	c := &call{life: g.life, kind: reading, op: "batch get", errand: other}
	return pass(ctx, g.life.w.gate, c, func() (*dynamodb.BatchGetItemOutput, error) {
		return g.engine.BatchGetItem(context.Background(), in)
	})
}

func (g *gatedTable) BatchWriteItem(ctx context.Context, in *dynamodb.BatchWriteItemInput, _ ...options) (*dynamodb.BatchWriteItemOutput, error) {
	c := &call{life: g.life, kind: writing, op: "batch write", errand: other}
	return pass(ctx, g.life.w.gate, c, func() (*dynamodb.BatchWriteItemOutput, error) {
		return g.engine.BatchWriteItem(context.Background(), in)
	})
}

func (g *gatedTable) TransactGetItems(ctx context.Context, in *dynamodb.TransactGetItemsInput, _ ...options) (*dynamodb.TransactGetItemsOutput, error) {
	var rows []string
	var pk string
	for _, get := range in.TransactItems {
		pk = textOf(get.Get.Key, "pk")
		rows = append(rows, g.life.w.rowName(pk, textOf(get.Get.Key, "sk")))
	}
	c := &call{
		life: g.life, kind: reading, op: "transact get " + strings.Join(rows, ", "), errand: g.life.w.errandOfRead(pk), rows: rows, pks: []string{pk},
		aside: isAside(ctx), note: noteOf(ctx),
	}
	return pass(ctx, g.life.w.gate, c, func() (*dynamodb.TransactGetItemsOutput, error) {
		return g.engine.TransactGetItems(context.Background(), in)
	})
}

func (g *gatedTable) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, _ ...options) (*dynamodb.TransactWriteItemsOutput, error) {
	c := &call{life: g.life, kind: transaction}
	var parts []string
	actions := make(map[string]bool)
	for _, action := range in.TransactItems {
		verb, key := actionOf(action)
		noteLease(ctx, key)
		pk := textOf(key, "pk")
		if !slices.Contains(c.pks, pk) {
			c.pks = append(c.pks, pk)
		}
		c.logged = c.logged || pk == "PURGE"
		c.rows = append(c.rows, textOf(key, "sk"))
		if sk := textOf(key, "sk"); action.Update != nil && (sk == "PURGE" || strings.HasPrefix(sk, "MARK#")) {
			c.purges = append(c.purges, [2]string{pk, sk})
		}
		actions[verb+" "+textOf(key, "sk")] = true
		parts = append(parts, verb+" "+g.life.w.rowName(pk, textOf(key, "sk")))
	}
	c.errand = errandOfTransaction(actions)
	c.op = "transact " + strings.Join(parts, ", ")
	if in.ClientRequestToken == nil {
		// Like the SDK: all attempts, here the copies of a call, share one token.
		with := *in
		with.ClientRequestToken = aws.String(rand.Text())
		in = &with
	}
	return pass(ctx, g.life.w.gate, c, func() (*dynamodb.TransactWriteItemsOutput, error) {
		return g.engine.TransactWriteItems(context.Background(), in)
	})
}

// noteLease records in the context's note which lease is requested.
func noteLease(ctx context.Context, row item) {
	if n := noteOf(ctx); n != nil && textOf(row, "lease_token") != "" {
		n.token = textOf(row, "lease_token")
	}
}

// actionOf returns the verb and the row of a transaction's action.
func actionOf(action types.TransactWriteItem) (verb string, key item) {
	switch {
	case action.Put != nil:
		return "put", action.Put.Item
	case action.Update != nil:
		return "update", action.Update.Key
	case action.Delete != nil:
		return "delete", action.Delete.Key
	case action.ConditionCheck != nil:
		return "check", action.ConditionCheck.Key
	}
	return "nothing", nil
}
