package isr_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// listedUntil returns when the row of the only listed variant ends; 0: it has no ttl, and
// -1: none is listed.
func (tb *table) listedUntil(t *testing.T) int64 {
	t.Helper()
	out, err := tb.db.Scan(t.Context(), &dynamodb.ScanInput{
		TableName: aws.String(tableName), FilterExpression: aws.String("begins_with(sk, :prefix)"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":prefix": &types.AttributeValueMemberS{Value: "VARIANT#"}},
	})
	if err != nil || len(out.Items) > 1 {
		t.Fatalf("%d rows, %v", len(out.Items), err)
	}
	if len(out.Items) == 0 {
		return -1
	}
	ttl, ok := out.Items[0]["ttl"].(*types.AttributeValueMemberN)
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(ttl.Value, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A variant is listed for longer than its entry is kept, however that came to be current.
func TestVariantsAreListedForLongerThanTheyAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), new(editable)
		p := tb.peer("a", isr.Route{Vary: []string{"X-Lang"}, History: 3}, site, func(cfg *isr.Config) { cfg.Retention, cfg.Poll = 10*24*time.Hour, -1 })
		k := store.Key{Text: "example.com/#x-lang=de"}
		kept := func(when string) {
			t.Helper()
			e, listed := recordOf(t, p, k).Entry, tb.listedUntil(t)
			if e.Expires.IsZero() && listed != 0 || !e.Expires.IsZero() && listed <= e.Expires.Unix() {
				t.Errorf("%s: kept until %v, listed until %d", when, e.Expires, listed)
			}
		}
		get(p, "/")
		if n := tb.listedUntil(t); n != -1 {
			t.Errorf("a page without a variant is listed until %d", n)
		}
		get(p, "/", "X-Lang: de")
		kept("after a publish")
		time.Sleep(25 * time.Hour)
		site.version.Add(1)
		get(p, "/", "X-Lang: de") // stale
		synctest.Wait()
		kept("after another")
		time.Sleep(9 * 24 * time.Hour)
		if _, err := p.Rollback(t.Context(), k, isr.PinFor(20*24*time.Hour)); err != nil {
			t.Fatal(err)
		}
		kept("after a rollback")
		for _, d := range []time.Duration{40 * 24 * time.Hour, 0} {
			if _, err := p.Pin(t.Context(), k, d); err != nil {
				t.Fatal(err)
			}
			kept(fmt.Sprintf("after a pin for %v", d))
		}
	})
}

// Requests for variants that are not stored leave nothing in the list.
func TestVariantsThatAreNotStored(t *testing.T) {
	for name, answers := range map[string]http.HandlerFunc{
		"not found": func(w http.ResponseWriter, r *http.Request) { notFound(w, r, 1) },
		"failure":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		"private":   func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Cache-Control", "private") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := newTable(t)
				p := tb.peer("a", isr.Route{Vary: []string{"X-Lang"}}, answers, nil)
				get(p, "/none", "X-Lang: de")
				synctest.Wait()
				if n := tb.listedUntil(t); n != -1 {
					t.Errorf("listed until %d", n)
				}
			})
		})
	}
}
