package envelope

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// failingProvider is a provider without data keys.
type failingProvider struct{ KeyProvider }

func (failingProvider) NewDataKey(context.Context) (plain, sealed []byte, err error) {
	return nil, nil, errors.New("out of order")
}

// TestPlaintextsAreWiped: plaintexts are zeroed after success and after any error.
func TestPlaintextsAreWiped(t *testing.T) {
	t.Parallel()
	file, err := OpenKeyFile(t.TempDir() + "/keys")
	if err != nil {
		t.Fatal(err)
	}
	secret := func() types.AttributeValue { return &types.AttributeValueMemberS{Value: "secret"} }
	users := Location{Table: "users", Key: []KeyAttribute{{Name: "pk", Value: secret()}}}
	for name, test := range map[string]struct {
		keys     KeyProvider
		location Location
		names    []string
		works    bool
		taken    int // how many plaintexts there were
	}{
		"encrypted":        {file, users, []string{"a", "b", "none"}, true, 2},
		"no data key":      {failingProvider{}, users, []string{"a", "b"}, false, 2},
		"no location":      {file, Location{}, []string{"a", "b"}, false, 2},
		"a key attribute":  {file, users, []string{"a", "pk", "b"}, false, 1},
		"an invalid value": {file, users, []string{"a", "b", "odd"}, false, 2},
	} {
		texts := make(plaintexts)
		attributes := map[string]types.AttributeValue{"pk": secret(), "a": secret(), "b": secret(), "odd": nil}
		if err := texts.seal(t.Context(), test.keys, test.location, attributes, test.names); (err == nil) != test.works {
			t.Errorf("%s: %v", name, err)
		}
		if len(texts) != test.taken {
			t.Errorf("%s: %d plaintexts, want %d", name, len(texts), test.taken)
		}
		for attribute, text := range texts {
			if len(text) == 0 || len(bytes.Trim(text, "\x00")) > 0 {
				t.Errorf("%s: %s is not wiped: %q", name, attribute, text)
			}
		}
	}
}
