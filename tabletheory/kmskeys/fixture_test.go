package kmskeys_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory/envelope"
)

type item = map[string]types.AttributeValue

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// home returns the location for which tests encrypt.
func home() envelope.Location {
	return envelope.Location{Table: "users", Key: []envelope.KeyAttribute{{Name: "pk", Value: str("USER#1")}}}
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

// dataKey returns the sealed data key of an encrypted attribute. The caller may modify
// it.
func dataKey(t testing.TB, v types.AttributeValue) []byte {
	t.Helper()
	stored, ok := v.(*types.AttributeValueMemberM)
	if !ok {
		t.Fatalf("%T is not an encrypted attribute", v)
	}
	edk, ok := stored.Value["edk"].(*types.AttributeValueMemberB)
	if !ok {
		t.Fatalf("edk is a %T", stored.Value["edk"])
	}
	return edk.Value
}
