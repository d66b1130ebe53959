package tabletheory_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/facetheory/isr/tabletheory"
	"github.com/facetheory/isr/tabletheory/envelope"
)

func TestMarshalItemMatchesWrites(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table := orderTable(t, api)
		db := tabletheory.New(api)
		order := orderOf("ann", 1)
		check(t, db.Model(&order).Create())
		item, err := db.MarshalItem(t.Context(), order)
		check(t, err)
		stored := getRaw(t, api, table, attrs{"customer": str("ann"), "number": num("1")})
		if diff := cmp.Diff(stored, item, ignoreSDK); diff != "" {
			t.Errorf("(-stored +marshalled)\n%s", diff)
		}

		var got Order
		check(t, db.UnmarshalItem(t.Context(), stored, &got))
		same(t, got, order)
	})
}

// MarshalItem and UnmarshalItem need no table name.
func TestItemsOfModelsWithoutATable(t *testing.T) {
	t.Setenv("TABLETHEORY_ACCOUNTS", "")
	db := tabletheory.New(nil)
	item, err := db.MarshalItem(t.Context(), Account{ID: "a", Balance: 7})
	check(t, err)
	var got Account
	check(t, db.UnmarshalItem(t.Context(), item, &got))
	same(t, got, Account{ID: "a", Balance: 7})
}

// letter has an encrypted field.
type letter struct {
	ID   string `theorydb:"pk"`
	Text string `theorydb:"encrypted"`
}

func (letter) TableName() string { return "letters" }

func TestEncryptedFieldsOfItems(t *testing.T) {
	t.Parallel()
	keys, err := envelope.OpenKeyFile(filepath.Join(t.TempDir(), "keys"))
	check(t, err)
	db := tabletheory.New(nil, tabletheory.WithKeyProvider(keys))
	item, err := db.MarshalItem(t.Context(), letter{ID: "1", Text: "secret"})
	check(t, err)
	if _, sealed := item["text"].(*types.AttributeValueMemberM); !sealed {
		t.Fatalf("text is a %T, want an envelope", item["text"])
	}
	for range 2 { // the item is not changed
		var got letter
		check(t, db.UnmarshalItem(t.Context(), item, &got))
		same(t, got, letter{ID: "1", Text: "secret"})
	}
	item["id"] = str("2")
	got := letter{ID: "untouched"}
	if err := db.UnmarshalItem(t.Context(), item, &got); !errors.Is(err, envelope.ErrTampered) {
		t.Errorf("envelope in another item: got %v, want ErrTampered", err)
	}
	same(t, got, letter{ID: "untouched"})
}

func TestUnmarshalItemNeedsAPointer(t *testing.T) {
	t.Parallel()
	db := tabletheory.New(nil)
	if err := db.UnmarshalItem(t.Context(), attrs{"id": str("a")}, Account{}); !errors.Is(err, tabletheory.ErrInvalidQuery) {
		t.Errorf("UnmarshalItem into a struct: got %v, want ErrInvalidQuery", err)
	}
	if err := db.UnmarshalItem(t.Context(), attrs{"id": str("a")}, new(int)); !errors.Is(err, tabletheory.ErrInvalidModel) {
		t.Errorf("UnmarshalItem into an int: got %v, want ErrInvalidModel", err)
	}
}
