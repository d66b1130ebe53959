package kmskeys_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory/envelope"
)

type item = map[string]types.AttributeValue

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// home is the place that tests encrypt for.
func home() envelope.Place {
	return envelope.Place{Table: "users", Key: []envelope.KeyAttribute{{Name: "pk", Value: str("USER#1")}}}
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

// dataKey is the sealed data key of an encrypted attribute, to look at or to
// damage.
func dataKey(t testing.TB, v types.AttributeValue) []byte {
	t.Helper()
	stored, ok := v.(*types.AttributeValueMemberM)
	if !ok {
		t.Fatalf("%T is no encrypted attribute", v)
	}
	edk, ok := stored.Value["edk"].(*types.AttributeValueMemberB)
	if !ok {
		t.Fatalf("edk is a %T", stored.Value["edk"])
	}
	return edk.Value
}
