package spec_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory/envelope"
)

// contractKeys always returns the same data key.
type contractKeys struct{}

func (contractKeys) NewDataKey(context.Context) (plain, sealed []byte, err error) {
	return bytes.Repeat([]byte{1}, 32), []byte("sealed"), nil
}

func (k contractKeys) OpenDataKey(ctx context.Context, _ []byte) ([]byte, error) {
	plain, _, err := k.NewDataKey(ctx)
	return plain, err
}

// encryptedAttributes returns the names of the encrypted attributes of contractItem.
func encryptedAttributes() []string { return []string{"secret", "codes"} }

// marked returns what stands for an encrypted attribute in an item of a vector.
func marked(value types.AttributeValue) types.AttributeValue {
	return &types.AttributeValueMemberM{Value: item{"encrypted": value}}
}

// unmarked leaves the value of an attribute as it is.
func unmarked(value types.AttributeValue) types.AttributeValue { return value }

// sealMarked returns an item with its marked attributes encrypted.
func sealMarked(t *testing.T, i item) item {
	t.Helper()
	i = maps.Clone(i)
	for _, name := range encryptedAttributes() {
		mark, ok := i[name].(*types.AttributeValueMemberM)
		if !ok {
			continue
		}
		i[name] = sealed(t, item{"pk": i["pk"], "sk": i["sk"], name: mark.Value["encrypted"]})[name]
	}
	return i
}

// sealed returns an item with its attributes encrypted.
func sealed(t *testing.T, i item) item {
	t.Helper()
	i = maps.Clone(i)
	if err := envelope.Seal(t.Context(), contractKeys{}, home(i), i, encryptedAttributes()...); err != nil {
		t.Fatal(err)
	}
	return i
}

// opened returns an item with its attributes decrypted and marked. Attributes that cannot
// be opened, as some vectors have them, stay.
func opened(t *testing.T, i item, mark func(types.AttributeValue) types.AttributeValue) item {
	t.Helper()
	i = maps.Clone(i)
	for _, name := range encryptedAttributes() {
		if i[name] == nil {
			continue
		}
		err := envelope.Open(t.Context(), contractKeys{}, home(i), i, name)
		switch {
		case errors.Is(err, envelope.ErrNotEncrypted):
		case err != nil:
			t.Fatal(err)
		default:
			i[name] = mark(i[name])
		}
	}
	return i
}

// home returns the location of an item of contractItem.
func home(i item) envelope.Location {
	return envelope.Location{Table: tableName, Key: []envelope.KeyAttribute{{Name: "pk", Value: i["pk"]}, {Name: "sk", Value: i["sk"]}}}
}
