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

// home returns the location for which tests encrypt.
func home() envelope.Location {
	return envelope.Location{Table: "users", Key: []envelope.KeyAttribute{
		{Name: "pk", Value: str("USER#1")}, {Name: "sk", Value: str("PROFILE")},
	}}
}

// newKeyFile returns a provider with a new key file, and the file's path.
func newKeyFile(t testing.TB) (*envelope.KeyFile, string) {
	t.Helper()
	path := t.TempDir() + "/keys"
	keys, err := envelope.OpenKeyFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return keys, path
}

// countingProvider counts the calls of a provider. It is not safe for concurrent use.
type countingProvider struct {
	envelope.KeyProvider
	created, opened int
}

func (c *countingProvider) NewDataKey(ctx context.Context) (plain, sealed []byte, err error) {
	c.created++
	return c.KeyProvider.NewDataKey(ctx)
}

func (c *countingProvider) OpenDataKey(ctx context.Context, sealed []byte) ([]byte, error) {
	c.opened++
	return c.KeyProvider.OpenDataKey(ctx, sealed)
}

// fixed is a provider that always returns the same keys, valid or not.
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

// seal returns an item whose attribute "secret" is v, encrypted for home.
func seal(t testing.TB, keys envelope.KeyProvider, v types.AttributeValue) item {
	t.Helper()
	sealed := item{"secret": v}
	if err := envelope.Seal(t.Context(), keys, home(), sealed, "secret"); err != nil {
		t.Fatal(err)
	}
	return sealed
}
