package localdynamo_test

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
)

func TestListTables(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	for _, name := range []string{"zoo", "Zoo", "a-1", "a.1"} {
		createTable(t, db, name, types.ScalarAttributeTypeS)
	}
	var pages [][]string
	in := &dynamodb.ListTablesInput{Limit: aws.Int32(2)}
	for {
		out, err := db.ListTables(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, out.TableNames)
		if in.ExclusiveStartTableName = out.LastEvaluatedTableName; in.ExclusiveStartTableName == nil {
			break
		}
	}
	equal(t, pages, [][]string{{"Zoo", "a-1"}, {"a.1", "things"}, {"zoo"}})

	out, err := db.ListTables(t.Context(), &dynamodb.ListTablesInput{ExclusiveStartTableName: aws.String("b-is-no-table")})
	if err != nil || !slices.Equal(out.TableNames, []string{"things", "zoo"}) {
		t.Errorf("after a name without a table: %v, %v", out, err)
	}
	out, err = db.ListTables(t.Context(), &dynamodb.ListTablesInput{ExclusiveStartTableName: aws.String("zoo")})
	if err != nil || out.TableNames == nil || len(out.TableNames) != 0 {
		t.Errorf("after the last name: %v, %v; want an empty list", out, err)
	}
}

func TestListTablesRefusals(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	list := func(limit int32, start string) error {
		_, err := db.ListTables(t.Context(), &dynamodb.ListTablesInput{Limit: &limit, ExclusiveStartTableName: &start})
		return err
	}
	wantInvalid(t, list(0, "things"), "greater than or equal to 1")
	wantInvalid(t, list(101, "things"), "less than or equal to 100")
	wantInvalid(t, list(1, "x"), "Member must have length greater than or equal to 3")
}
