package envelope

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// noKeys is a provider that is out of order.
type noKeys struct{ KeyProvider }

func (noKeys) NewDataKey(context.Context) (plain, sealed []byte, err error) {
	return nil, nil, errors.New("out of order")
}

// TestPlaintextsAreWiped: no plaintext stays in memory, whatever comes of it.
func TestPlaintextsAreWiped(t *testing.T) {
	file, err := OpenKeyFile(t.TempDir() + "/keys")
	if err != nil {
		t.Fatal(err)
	}
	secret := func() types.AttributeValue { return &types.AttributeValueMemberS{Value: "secret"} }
	users := Place{Table: "users", Key: []KeyAttribute{{Name: "pk", Value: secret()}}}
	for name, test := range map[string]struct {
		keys  KeyProvider
		place Place
		names []string
		works bool
		taken int // how many plaintexts there were
	}{
		"encrypted":               {file, users, []string{"a", "b", "none"}, true, 2},
		"no data key":             {noKeys{}, users, []string{"a", "b"}, false, 2},
		"no place":                {file, Place{}, []string{"a", "b"}, false, 2},
		"a key among them":        {file, users, []string{"a", "pk", "b"}, false, 1},
		"one that cannot be read": {file, users, []string{"a", "b", "odd"}, false, 2},
	} {
		texts := make(plaintexts)
		attributes := map[string]types.AttributeValue{"pk": secret(), "a": secret(), "b": secret(), "odd": nil}
		if err := texts.seal(t.Context(), test.keys, test.place, attributes, test.names); (err == nil) != test.works {
			t.Errorf("%s: %v", name, err)
		}
		if len(texts) != test.taken {
			t.Errorf("%s: %d plaintexts, want %d", name, len(texts), test.taken)
		}
		for attribute, text := range texts {
			if len(text) == 0 || len(bytes.Trim(text, "\x00")) > 0 {
				t.Errorf("%s: %s is still there: %q", name, attribute, text)
			}
		}
	}
}
