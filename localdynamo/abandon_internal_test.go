package localdynamo

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/store"
	"github.com/facetheory/isr/localdynamo/internal/value"
)

// counted returns the number of keys of a space.
func counted(t *testing.T, db *DB, space string) (n int) {
	t.Helper()
	err := db.view(t.Context(), func(r store.Reader) error {
		n = 0
		r.Range(space, nil, nil, false, func(_, _ []byte) bool { n++; return true })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestDeleteTableInPieces: deleting a table abandons its items, and each write of the
// removal removes a bounded number of them. What a stop leaves is removed after Open.
func TestDeleteTableInPieces(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	options := Options{NoSync: true, SweepInterval: -1}
	db, err := Open(path, options)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String("large"), BillingMode: types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS}},
	})
	if err != nil {
		t.Fatal(err)
	}
	large := (*db.tables.Load())["large"]
	const items = 3*removedKeys + 10
	err = db.submit(t.Context(), func(tx *transaction) error {
		for i := range items {
			it := map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: fmt.Sprintf("%06d", i)}}
			key, err := large.encodeKey(it)
			if err != nil {
				return err
			}
			stored := value.View(value.Encode(nil, it))
			tx.updateTally(large.space(), "", stored)
			if err := tx.Put(large.space(), key, []byte(stored)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	// In one transaction, so that the background task does nothing in between.
	err = db.submit(t.Context(), func(tx *transaction) error {
		if err := tx.removeTable(large); err != nil {
			return err
		}
		changes := tx.changes
		for left := items - removedKeys; left > removedKeys; left -= removedKeys {
			if more, err := tx.removeNext(large.space()); err != nil || !more {
				t.Errorf("more is %v, error %v, with %d items left", more, err, left)
			}
			if n := tx.changes - changes; n != removedKeys {
				t.Errorf("one piece changed %d keys, want %d", n, removedKeys)
			}
			changes = tx.changes
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if db, err = Open(path, options); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for counted(t, db, abandonedSpace) > 0 {
		if err := db.flush(t.Context()); err != nil { // wait for the writer, not for a time
			t.Fatal(err)
		}
	}
	if n := counted(t, db, large.space()); n != 0 {
		t.Errorf("%d items are left", n)
	}
	if err := db.Check(t.Context()); err != nil {
		t.Error(err)
	}
}
