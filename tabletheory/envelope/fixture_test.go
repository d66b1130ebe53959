package envelope_test

import (
	"context"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory/envelope"
)

type item = map[string]types.AttributeValue

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func num(n string) types.AttributeValue { return &types.AttributeValueMemberN{Value: n} }
func bin(b []byte) types.AttributeValue { return &types.AttributeValueMemberB{Value: b} }
func obj(m item) types.AttributeValue   { return &types.AttributeValueMemberM{Value: m} }
func null() types.AttributeValue        { return &types.AttributeValueMemberNULL{Value: true} }

func list(l ...types.AttributeValue) types.AttributeValue {
	return &types.AttributeValueMemberL{Value: l}
}

// home is the place that tests encrypt for.
func home() envelope.Place {
	return envelope.Place{Table: "users", Key: []envelope.KeyAttribute{
		{Name: "pk", Value: str("USER#1")}, {Name: "sk", Value: str("PROFILE")},
	}}
}

// newKeyFile returns a provider on a file of the test's own, and its path.
func newKeyFile(t testing.TB) (*envelope.KeyFile, string) {
	t.Helper()
	path := t.TempDir() + "/keys"
	keys, err := envelope.OpenKeyFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return keys, path
}

// counted counts what a provider is asked for. For one goroutine.
type counted struct {
	envelope.KeyProvider
	made, opened int
}

func (c *counted) NewDataKey(ctx context.Context) (plain, sealed []byte, err error) {
	c.made++
	return c.KeyProvider.NewDataKey(ctx)
}

func (c *counted) OpenDataKey(ctx context.Context, sealed []byte) ([]byte, error) {
	c.opened++
	return c.KeyProvider.OpenDataKey(ctx, sealed)
}

// fixed is a provider that always has the same keys, right or wrong.
type fixed struct {
	plain, sealed []byte
	err           error
}

func (f fixed) NewDataKey(context.Context) (plain, sealed []byte, err error) {
	return slices.Clone(f.plain), f.sealed, f.err
}

func (f fixed) OpenDataKey(context.Context, []byte) ([]byte, error) {
	return slices.Clone(f.plain), f.err
}

// seal returns an item whose attribute "secret" is the value, encrypted for home.
func seal(t testing.TB, keys envelope.KeyProvider, v types.AttributeValue) item {
	t.Helper()
	sealed := item{"secret": v}
	if err := envelope.Seal(t.Context(), keys, home(), sealed, "secret"); err != nil {
		t.Fatal(err)
	}
	return sealed
}
