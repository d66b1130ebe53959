package localdynamo_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
)

// TestConcurrentCreateHasOneWinner: of many conditional puts of a new item,
// exactly one succeeds.
func TestConcurrentCreateHasOneWinner(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	for round := range 20 {
		var won, lost atomic.Int32
		var group sync.WaitGroup
		for worker := range 16 {
			group.Go(func() {
				_, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{
					TableName: things, Item: item{"pk": str("lock"), "sk": str(strconv.Itoa(round)), "owner": num(strconv.Itoa(worker))},
					ConditionExpression: aws.String("attribute_not_exists(pk)"),
				})
				var failed *types.ConditionalCheckFailedException
				switch {
				case err == nil:
					won.Add(1)
				case errors.As(err, &failed):
					lost.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		group.Wait()
		equal(t, []int32{won.Load(), lost.Load()}, []int32{1, 15})
	}
}

// TestTransactionsAreSerializable moves amounts between accounts in transactions
// while readers sum all accounts. The total must never change.
func TestTransactionsAreSerializable(t *testing.T) {
	t.Parallel()
	const accounts, workers, rounds = 8, 8, 60
	db := open(t, localdynamo.Options{})
	for i := range accounts {
		put(t, db, item{"pk": str("bank"), "sk": str(strconv.Itoa(i)), "n": num("100")})
	}
	move := func(account int, amount string) types.TransactWriteItem {
		return types.TransactWriteItem{Update: &types.Update{
			TableName: things, Key: key("bank", strconv.Itoa(account)), UpdateExpression: aws.String("SET n = n + :a"),
			ConditionExpression: aws.String("n >= :least"), ExpressionAttributeValues: item{":a": num(amount), ":least": num("7")},
		}}
	}
	done := make(chan struct{})
	var readers, writers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if total := sumAccounts(t, db); total != 100*accounts {
					t.Errorf("the total became %d", total)
					return
				}
			}
		})
	}
	for w := range workers {
		writers.Go(func() {
			for i := range rounds {
				from, to := (w+i)%accounts, (w+3*i+1)%accounts
				if from == to {
					continue
				}
				var canceled *types.TransactionCanceledException
				if err := transact(t, db, move(from, "-7"), move(to, "7")); err != nil && !errors.As(err, &canceled) {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
	equal(t, sumAccounts(t, db), 100*accounts)
}

func sumAccounts(t *testing.T, db *localdynamo.DB) int {
	out, err := db.Query(t.Context(), &dynamodb.QueryInput{
		TableName: things, KeyConditionExpression: aws.String("pk = :p"), ExpressionAttributeValues: item{":p": str("bank")},
	})
	if err != nil {
		t.Error(err)
		return 0
	}
	total := 0
	for _, it := range out.Items {
		n, err := strconv.Atoi(it["n"].(*types.AttributeValueMemberN).Value)
		if err != nil {
			t.Error(err)
		}
		total += n
	}
	return total
}

// TestCloseDuringWrites: acknowledged writes survive Close, all others get
// ErrClosed.
func TestCloseDuringWrites(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/db"
	db, err := localdynamo.Open(path, localdynamo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	createTable(t, db, "things", types.ScalarAttributeTypeS)
	var group sync.WaitGroup
	var acknowledged sync.Map
	started := make(chan struct{}, 100)
	for w := range 8 {
		group.Go(func() {
			for i := 0; ; i++ {
				k := key("p", fmt.Sprintf("%d-%d", w, i))
				_, err := db.PutItem(context.Background(), &dynamodb.PutItemInput{TableName: things, Item: k})
				if err != nil {
					if !errors.Is(err, localdynamo.ErrClosed) {
						t.Error(err)
					}
					return
				}
				acknowledged.Store(fmt.Sprintf("%d-%d", w, i), true)
				select {
				case started <- struct{}{}:
				default:
				}
			}
		})
	}
	for range cap(started) {
		<-started
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	group.Wait()
	db = openAt(t, path, localdynamo.Options{})
	acknowledged.Range(func(sk, _ any) bool {
		if get(t, db, "p", sk.(string)) == nil {
			t.Errorf("acknowledged item %v is lost", sk)
		}
		return true
	})
}
