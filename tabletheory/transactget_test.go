package tabletheory_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/localdynamotest"
	"github.com/facetheory/isr/localdynamo/wire"
	"github.com/facetheory/isr/tabletheory"
)

func TestTransactGet(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		orderTable(t, api)
		accounts := accountTable(t, api)
		seedOrders(t, api, "ann", 2)
		putRaw(t, api, accounts, attrs{"id": str("a"), "name": str("Ann"), "balance": num("12")})

		order := Order{Customer: "ann", Number: 2, Total: 7}
		account, absent := &Account{ID: "a"}, Account{ID: "b", Name: "kept"}
		foundOrder, foundAbsent := false, true
		err := tabletheory.New(api).TransactGet(t.Context(), func(tx *tabletheory.TransactionReader) error {
			tx.Get(&order, &foundOrder).Get(account, nil).Get(&absent, &foundAbsent)
			return nil
		})
		check(t, err)
		same(t, order, orderOf("ann", 2))
		same(t, *account, Account{ID: "a", Name: "Ann", Balance: 12})
		same(t, absent, Account{ID: "b", Name: "kept"})
		if !foundOrder || foundAbsent {
			t.Errorf("found the order: %t, the absent account: %t; want true and false", foundOrder, foundAbsent)
		}
	})
}

func TestInvalidTransactGets(t *testing.T) {
	t.Parallel()
	var calls recorder
	api := localdynamotest.New(t, localdynamotest.Intercept(calls.intercept))
	own := errors.New("of the caller")
	for _, test := range []struct {
		name string
		read func(tx *tabletheory.TransactionReader) error
		want error
		part string
	}{
		{"nothing", func(*tabletheory.TransactionReader) error { return nil }, tabletheory.ErrInvalidQuery, "Get"},
		{"a struct", func(tx *tabletheory.TransactionReader) error { tx.Get(Account{ID: "a"}, nil); return nil }, tabletheory.ErrInvalidQuery, "*tabletheory_test.Account"},
		{"no model", func(tx *tabletheory.TransactionReader) error { tx.Get(nil, nil); return nil }, tabletheory.ErrInvalidModel, "nil"},
		{"no key", func(tx *tabletheory.TransactionReader) error { tx.Get(&Account{}, nil); return nil }, tabletheory.ErrInvalidQuery, "ID"},
		{"twice", func(tx *tabletheory.TransactionReader) error {
			tx.Get(&Account{ID: "a"}, nil).Get(&Account{ID: "a"}, nil).Get(nil, nil)
			return nil
		}, tabletheory.ErrInvalidQuery, "twice"},
		{"too many", func(tx *tabletheory.TransactionReader) error {
			for i := range 101 {
				tx.Get(&Account{ID: strconv.Itoa(i)}, nil)
			}
			return nil
		}, tabletheory.ErrInvalidQuery, "100"},
		{"an error of the caller", func(tx *tabletheory.TransactionReader) error { tx.Get(&Account{ID: "a"}, nil); return own }, own, "of the caller"},
	} {
		err := tabletheory.New(api).TransactGet(t.Context(), test.read)
		if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.part) {
			t.Errorf("%s: got error %v, want %v that tells of %q", test.name, err, test.want, test.part)
		}
	}
	if sent := calls.take(); sent != "" {
		t.Errorf("%s was sent", sent)
	}
}

// cancelled cancels the first transactions with these reasons.
func cancelled(times int, codes ...string) (intercept wire.Interceptor, attempts *int) {
	attempts = new(int)
	return func(_ context.Context, call wire.Call, _ func()) error {
		if call.Operation != "TransactGetItems" {
			return nil
		}
		if *attempts++; *attempts > times {
			return nil
		}
		failure := &types.TransactionCanceledException{Message: aws.String("cancelled")}
		for _, code := range codes {
			failure.CancellationReasons = append(failure.CancellationReasons, types.CancellationReason{Code: aws.String(code)})
		}
		return failure
	}, attempts
}

func TestTransactGetRetriesConflicts(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		codes    []string
		times    int
		attempts int
		want     error
	}{
		{"a transient conflict", []string{"None", "TransactionConflict"}, 2, 3, nil},
		{"a persistent conflict", []string{"TransactionConflict", "None"}, 100, 4, tabletheory.ErrTransactionConflict},
		{"throttling", []string{"ThrottlingError", "TransactionConflict"}, 3, 4, nil},
		{"an invalid key", []string{"ValidationError", "TransactionConflict"}, 100, 1, tabletheory.ErrTransactionConflict},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				intercept, attempts := cancelled(test.times, test.codes...)
				api := localdynamotest.New(t, localdynamotest.Intercept(intercept))
				table := "accounts"
				_, err := api.CreateTable(t.Context(), &dynamodb.CreateTableInput{
					TableName: &table, BillingMode: types.BillingModePayPerRequest,
					KeySchema: keySchema("id"), AttributeDefinitions: definitions("id", "S"),
				})
				check(t, err)
				putRaw(t, api, table, attrs{"id": str("a"), "balance": num("5")})

				account, other := Account{ID: "a"}, Account{ID: "b"}
				err = tabletheory.New(api).TransactGet(t.Context(), func(tx *tabletheory.TransactionReader) error {
					tx.Get(&account, nil).Get(&other, nil)
					return nil
				})
				if !errors.Is(err, test.want) || *attempts != test.attempts {
					t.Errorf("after %d attempts the error is %v, want %d and %v", *attempts, err, test.attempts, test.want)
				}
				if want := int64(5); err == nil && account.Balance != want || err != nil && account.Balance != 0 {
					t.Errorf("with the error %v the balance is %d", err, account.Balance)
				}
				if failure, ok := errors.AsType[*tabletheory.TransactionError](err); err != nil && (!ok || failure.Reasons[0].Kind != "get" || failure.Reasons[1].Code != test.codes[1]) {
					t.Errorf("got %#v, want the reasons of two gets", err)
				}
			})
		})
	}
}

// One item that cannot be decoded leaves all destinations unchanged.
func TestTransactGetDecodesAllOrNothing(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table := accountTable(t, api)
		putRaw(t, api, table, attrs{"id": str("a"), "balance": num("5")})
		putRaw(t, api, table, attrs{"id": str("b"), "balance": str("none")})
		account, wrong, found := Account{ID: "a"}, Account{ID: "b"}, false
		err := tabletheory.New(api).TransactGet(t.Context(), func(tx *tabletheory.TransactionReader) error {
			tx.Get(&account, &found).Get(&wrong, nil)
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), "Account id=b") || !strings.Contains(err.Error(), table) {
			t.Errorf("got error %v, want one that names account b and its table", err)
		}
		if found || account != (Account{ID: "a"}) {
			t.Errorf("the account is %+v, found %t", account, found)
		}
	})
}
