package tabletheory_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/localdynamotest"
	"github.com/facetheory/isr/localdynamo/wire"
	"github.com/facetheory/isr/tabletheory"
)

func TestErrorsFormatKeys(t *testing.T) {
	t.Parallel()
	api := localdynamotest.New(t)
	accountTable(t, api)
	db := tabletheory.New(api)
	for id, want := range map[string]string{
		"plain":           " id=plain ",
		"with space":      ` id="with space" `,
		"line\nbreak":     ` id="line\nbreak" `,
		`quo"te`:          ` id="quo\"te" `,
		"Zürich#日本":       " id=Zürich#日本 ",
		"bell\a":          ` id="bell\a" `,
		"invisible\u200b": ` id="invisible\u200b" `,
	} {
		err := db.Model(&Account{ID: id}).IfExists().Delete()
		wants(t, err, tabletheory.ErrConditionFailed, want)
	}
}

// DynamoDB may return fewer reasons than actions, or unknown ones.
func TestTransactionErrorWithUnexpectedReasons(t *testing.T) {
	t.Parallel()
	var answer *types.TransactionCanceledException
	api := localdynamotest.New(t, localdynamotest.Intercept(func(_ context.Context, call wire.Call, _ func()) error {
		if call.Operation == "TransactWriteItems" {
			return answer
		}
		return nil
	}))
	accountTable(t, api)
	db := tabletheory.New(api, tabletheory.WithRetries(0))
	for _, test := range []struct {
		reasons []types.CancellationReason
		want    string // of the first action
	}{
		{nil, "None"},
		{[]types.CancellationReason{{}}, "None"},
		{[]types.CancellationReason{{Code: aws.String("NewInSomeYears"), Message: aws.String("who knows")}}, "NewInSomeYears"},
		{[]types.CancellationReason{{Code: aws.String("TransactionConflict")}, {}, {Code: aws.String("TransactionConflict")}}, "TransactionConflict"},
	} {
		answer = &types.TransactionCanceledException{Message: aws.String("Transaction cancelled"), CancellationReasons: test.reasons}
		err := db.TransactWrite(t.Context(), func(tx *tabletheory.TransactionBuilder) error {
			tx.Put(&Account{ID: "a"}).Put(&Account{ID: "b"})
			return nil
		})
		failed, ok := errors.AsType[*tabletheory.TransactionError](err)
		if !ok || len(failed.Reasons) != 2 || failed.Reasons[0].Code != test.want || failed.Reasons[1].Code != "None" {
			t.Fatalf("got %v, with %+v", err, failed)
		}
		if named := strings.Contains(err.Error(), "action 0, put Account id=a"); named != (test.want != "None") {
			t.Errorf("got error %q", err)
		}
		if conflict := errors.Is(err, tabletheory.ErrTransactionConflict); conflict != (test.want == "TransactionConflict") {
			t.Errorf("%v is a conflict: %v", err, conflict)
		}
	}
}

// A version conflict tells what is stored, whether it is a version or not.
func TestVersionConflictWithForeignItems(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table := orderTable(t, api)
		db := tabletheory.New(api)
		for i, version := range []types.AttributeValue{str("seven"), num("1.5"), num("99999999999999999999999")} {
			item := orderKey("ada", fmt.Sprint(i))
			item["status"], item["version"] = str("open"), version
			putRaw(t, api, table, item)
			order := &Order{Customer: "ada", Number: int64(i), Status: "paid"}
			wants(t, db.Model(order).Update("Status"), tabletheory.ErrVersionConflict, "not a version")
			order.Version = 3
			err := db.Model(order).Update("Status")
			wants(t, err, tabletheory.ErrVersionConflict)
			failed, _ := errors.AsType[*tabletheory.ConditionError](err)
			var into Order
			if err := failed.Decode(&into); err == nil {
				t.Errorf("decoded %v as version %d", version, into.Version)
			}
			if err := failed.Decode(into); !errors.Is(err, tabletheory.ErrInvalidQuery) {
				t.Errorf("decode into a non-pointer: %v", err)
			}
		}
	})
}
