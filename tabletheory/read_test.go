package tabletheory_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/facetheory/isr/localdynamo/localdynamotest"
	"github.com/facetheory/isr/localdynamo/wire"
	"github.com/facetheory/isr/tabletheory"
)

// orderOf returns the order with a number. Every third is shipped; totals
// decrease as numbers increase.
func orderOf(customer string, number int64) Order {
	status := "open"
	if number%3 == 0 {
		status = "shipped"
	}
	return Order{
		Customer: customer, Number: number, Status: status, Placed: 1000 + number, Total: 500 - number,
		Address: Address{Street: "Street " + strconv.FormatInt(number, 10), City: "Bern"},
		Lines:   []Line{{Article: "tea", Price: 3}, {Article: "cup", Price: number}},
		Version: 1, CreatedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), UpdatedAt: time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC),
	}
}

// rawOrder returns [orderOf] as another writer would store it.
func rawOrder(o Order) attrs {
	var lines []types.AttributeValue
	for _, line := range o.Lines {
		lines = append(lines, &types.AttributeValueMemberM{Value: attrs{"article": str(line.Article), "price": integer(line.Price)}})
	}
	return attrs{
		"customer": str(o.Customer), "number": integer(o.Number), "status": str(o.Status), "placed": integer(o.Placed), "total": integer(o.Total),
		"address": &types.AttributeValueMemberM{Value: attrs{"street": str(o.Address.Street), "city": str(o.Address.City)}},
		"lines":   &types.AttributeValueMemberL{Value: lines},
		"version": integer(o.Version), "createdAt": str(o.CreatedAt.Format(time.RFC3339)), "updatedAt": str(o.UpdatedAt.Format(time.RFC3339)),
	}
}

func integer(n int64) types.AttributeValue { return num(strconv.FormatInt(n, 10)) }

// seedOrders stores the orders 1 to n of a customer.
func seedOrders(t *testing.T, api *dynamodb.Client, customer string, n int64) {
	t.Helper()
	for number := int64(1); number <= n; number++ {
		putRaw(t, api, Order{}.TableName(), rawOrder(orderOf(customer, number)))
	}
}

// orders returns the orders of a customer with these numbers.
func orders(customer string, numbers ...int64) []Order {
	list := []Order{}
	for _, number := range numbers {
		list = append(list, orderOf(customer, number))
	}
	return list
}

// recorder records the requests of a client.
type recorder struct {
	mu     sync.Mutex
	inputs []any
}

func (r *recorder) intercept(_ context.Context, call wire.Call, _ func()) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inputs = append(r.inputs, call.Input)
	return nil
}

// take returns the operations since the last take.
func (r *recorder) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for _, in := range r.inputs {
		names = append(names, strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", in), "*dynamodb."), "Input"))
	}
	r.inputs = nil
	return strings.Join(names, " ")
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func same(t *testing.T, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestQueryResults(t *testing.T) {
	t.Parallel()
	type call func(*tabletheory.Query) *tabletheory.Query
	tests := []struct {
		name  string
		build call
		want  []int64
	}{
		{"a partition", func(q *tabletheory.Query) *tabletheory.Query { return q }, []int64{1, 2, 3, 4, 5, 6, 7}},
		{"one item", func(q *tabletheory.Query) *tabletheory.Query { return q.Where("Number", "=", 3) }, []int64{3}},
		{"by attribute names", func(q *tabletheory.Query) *tabletheory.Query { return q.Where("number", " between ", []int{2, 4}) }, []int64{2, 3, 4}},
		{"backwards", func(q *tabletheory.Query) *tabletheory.Query {
			return q.Where("Number", ">=", 5).OrderBy("Number", "desc")
		}, []int64{7, 6, 5}},
		{"limited", func(q *tabletheory.Query) *tabletheory.Query { return q.Limit(2) }, []int64{1, 2}},
		{"filtered", func(q *tabletheory.Query) *tabletheory.Query { return q.Filter("Status", "=", "shipped") }, []int64{3, 6}},
		{"filtered and limited", func(q *tabletheory.Query) *tabletheory.Query { return q.Filter("Status", "=", "shipped").Limit(1) }, []int64{3}},
		{"filtered in a document", func(q *tabletheory.Query) *tabletheory.Query { return q.Filter("Lines[1].Price", "<", 3) }, []int64{1, 2}},
		{"filtered by either", func(q *tabletheory.Query) *tabletheory.Query {
			return q.Filter("Total", "=", 499).OrFilter("Status", "=", "shipped").Filter("Address.City", "=", "Bern")
		}, []int64{1, 3, 6}},
		{"filtered by groups", func(q *tabletheory.Query) *tabletheory.Query {
			return q.FilterGroup(func(g *tabletheory.Query) {
				g.Filter("Total", ">", 496).Filter("Status", "=", "shipped")
			}).OrFilterGroup(func(g *tabletheory.Query) {
				g.Filter("Total", "<=", 494).FilterGroup(func(g *tabletheory.Query) { g.Filter("Status", "=", "open").OrFilter("Total", "=", 494) })
			})
		}, []int64{3, 6, 7}},
		{"by a local index", func(q *tabletheory.Query) *tabletheory.Query {
			return q.Index("by-total").Where("Total", "<", 496).OrderBy("Total", "ASC").ConsistentRead()
		}, []int64{7, 6, 5}},
		{"consistently", func(q *tabletheory.Query) *tabletheory.Query { return q.Where("Number", "<", 2).ConsistentRead() }, []int64{1}},
		{"nothing", func(q *tabletheory.Query) *tabletheory.Query { return q.Where("Number", ">", 100) }, nil},
	}
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		orderTable(t, api)
		seedOrders(t, api, "ann", 7)
		seedOrders(t, api, "bob", 2)
		db := tabletheory.New(api)
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				query := func() *tabletheory.Query { return test.build(db.Model(&Order{}).Where("Customer", "=", "ann")) }
				want := orders("ann", test.want...)
				var all []Order
				check(t, query().All(&all))
				same(t, all, want)

				var pointers []*Order
				check(t, query().All(&pointers))
				if len(pointers) != len(want) || len(want) > 0 && !cmp.Equal(*pointers[0], want[0]) {
					t.Errorf("All into pointers found %d orders, want %d", len(pointers), len(want))
				}

				count, err := query().Count()
				check(t, err)
				if count != int64(len(want)) {
					t.Errorf("Count is %d, want %d", count, len(want))
				}

				first := Order{Customer: "untouched"}
				err = query().First(&first)
				if len(want) == 0 {
					if !errors.Is(err, tabletheory.ErrItemNotFound) || first.Customer != "untouched" {
						t.Errorf("First without a match: got %v and %q", err, first.Customer)
					}
					return
				}
				check(t, err)
				same(t, first, want[0])
			})
		}
	})
}

func TestQueryGlobalIndex(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		orderTable(t, api)
		seedOrders(t, api, "ann", 7)
		var shipped []Order
		check(t, tabletheory.New(api).Model(Order{}).Index("by-status").
			Where("Status", "=", "shipped").Where("Placed", "<", 2000).Filter("Customer", "=", "ann").OrderBy("placed", "DESC").All(&shipped))
		same(t, shipped, orders("ann", 6, 3))
	})
}

func TestFirstWithTheWholeKeyIsAGetItem(t *testing.T) {
	t.Parallel()
	var calls recorder
	api := localdynamotest.New(t, localdynamotest.Intercept(calls.intercept))
	orderTable(t, api)
	seedOrders(t, api, "ann", 1)
	db := tabletheory.New(api)
	key := func() *tabletheory.Query {
		return db.Model(Order{}).Where("Customer", "=", "ann").Where("Number", "=", 1)
	}
	for _, test := range []struct {
		want  string
		query *tabletheory.Query
	}{
		{"GetItem", key()},
		{"GetItem", key().ConsistentRead().Select("Total")},
		{"Query", key().Filter("Total", ">", 0)},
		{"Query", db.Model(Order{}).Where("Customer", "=", "ann")},
		{"Query", db.Model(Order{}).Where("Customer", "=", "ann").Where("Number", ">=", 1)},
		{"Query", db.Model(Order{}).Index("by-total").Where("Customer", "=", "ann").Where("Total", "=", 499)},
	} {
		calls.take()
		var order Order
		check(t, test.query.First(&order))
		if got := calls.take(); got != test.want || order.Total != 499 {
			t.Errorf("First sent %s and found total %d, want %s and 499", got, order.Total, test.want)
		}
	}
}

// A filter that drops all but the last item empties whole pages.
func TestReadsSkipEmptyPages(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table := cacheTable(t, api)
		for i := range 5 {
			putRaw(t, api, table, attrs{
				"pk": str("p"), "sk": str(strconv.Itoa(i)), "s3_key": str(strings.Repeat("x", 300<<10)), "generated_at": integer(int64(i)),
			})
		}
		db := tabletheory.New(api)
		last := func() *tabletheory.Query {
			return db.Model(FaceTheoryCacheMetadata{}).Where("PK", "=", "p").Filter("GeneratedAt", "=", 4)
		}
		var first FaceTheoryCacheMetadata
		check(t, last().First(&first))
		if first.SK != "4" {
			t.Errorf("First found %q, want 4", first.SK)
		}
		var all []FaceTheoryCacheMetadata
		check(t, last().All(&all))
		count, err := last().Count()
		check(t, err)
		var scanned []FaceTheoryCacheMetadata
		check(t, db.Model(FaceTheoryCacheMetadata{}).Filter("GeneratedAt", "=", 4).Scan(&scanned))
		if len(all) != 1 || count != 1 || len(scanned) != 1 {
			t.Errorf("All found %d, Count %d and Scan %d, want 1 each", len(all), count, len(scanned))
		}
	})
}

func TestSelect(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		orderTable(t, api)
		seedOrders(t, api, "ann", 2)
		db := tabletheory.New(api)
		var all []Order
		check(t, db.Model(Order{}).Where("Customer", "=", "ann").Select("Number", "address.city", "Lines[1].Price", "Number").All(&all))
		same(t, all, []Order{
			{Number: 1, Address: Address{City: "Bern"}, Lines: []Line{{Price: 1}}},
			{Number: 2, Address: Address{City: "Bern"}, Lines: []Line{{Price: 2}}},
		})

		note := "of another order"
		into := Order{Customer: "kept", Total: 7, Note: &note}
		check(t, db.Model(Order{}).Where("Customer", "=", "ann").Where("Number", "=", 2).Select("Total", "Note").First(&into))
		same(t, into, Order{Customer: "kept", Total: 498})

		into = Order{Customer: "kept"}
		check(t, db.Model(Order{}).Where("Customer", "=", "ann").Where("Number", "=", 2).Select("Tags").First(&into))
		same(t, into, Order{Customer: "kept"})
	})
}

func TestScan(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		orderTable(t, api)
		seedOrders(t, api, "ann", 20)
		seedOrders(t, api, "bob", 20)
		db := tabletheory.New(api)
		for name, scan := range map[string]func(*tabletheory.Query, *[]Order) error{
			"one worker":    func(q *tabletheory.Query, dest *[]Order) error { return q.Scan(dest) },
			"three workers": func(q *tabletheory.Query, dest *[]Order) error { return q.ParallelScan(dest, 3) },
		} {
			t.Run(name, func(t *testing.T) {
				var all, shipped, some, indexed []Order
				check(t, scan(db.Model(Order{}), &all))
				check(t, scan(db.Model(Order{}).Filter("Status", "=", "shipped").ConsistentRead(), &shipped))
				check(t, scan(db.Model(Order{}).Filter("Status", "=", "open").Limit(5), &some))
				check(t, scan(db.Model(Order{}).Index("by-status").Select("Number"), &indexed))
				if len(all) != 40 || len(shipped) != 12 || len(some) != 5 || len(indexed) != 40 {
					t.Errorf("found %d, %d, %d and %d orders, want 40, 12, 5 and 40", len(all), len(shipped), len(some), len(indexed))
				}
				seen := map[string]bool{}
				for _, order := range all {
					seen[order.Customer+strconv.FormatInt(order.Number, 10)] = true
					same(t, order, orderOf(order.Customer, order.Number))
				}
				if len(seen) != 40 {
					t.Errorf("%d distinct orders, want 40", len(seen))
				}
			})
		}
	})
}

func TestParallelScanStopsAtTheFirstError(t *testing.T) {
	t.Parallel()
	api := localdynamotest.New(t, localdynamotest.Intercept(func(_ context.Context, call wire.Call, _ func()) error {
		if in, ok := call.Input.(*dynamodb.ScanInput); ok && *in.Segment == 2 {
			return &types.ResourceNotFoundException{}
		}
		return nil
	}))
	orderTable(t, api)
	seedOrders(t, api, "ann", 3)
	found := []Order{{Customer: "kept"}}
	err := tabletheory.New(api).Model(Order{}).ParallelScan(&found, 4)
	if !errors.Is(err, tabletheory.ErrTableNotFound) {
		t.Errorf("got error %v, want ErrTableNotFound", err)
	}
	same(t, found, []Order{{Customer: "kept"}})
}

func TestDecodeErrorsNameTheItem(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table := orderTable(t, api)
		seedOrders(t, api, "ann", 1)
		wrong := rawOrder(orderOf("ann", 2))
		wrong["version"] = str("two")
		putRaw(t, api, table, wrong)
		db := tabletheory.New(api)
		dest := []Order{{Customer: "kept"}}
		var one Order
		for call, err := range map[string]error{
			"All":          db.Model(Order{}).Where("Customer", "=", "ann").All(&dest),
			"Scan":         db.Model(Order{}).Scan(&dest),
			"ParallelScan": db.Model(Order{}).ParallelScan(&dest, 2),
			"BatchGet":     db.Model(Order{}).BatchGet([]any{Order{Customer: "ann", Number: 2}}, &dest),
			"First":        db.Model(Order{}).Where("Customer", "=", "ann").Where("Number", "=", 2).First(&one),
			"Select":       db.Model(Order{}).Where("Customer", "=", "ann").Where("Number", "=", 2).Select("Version").First(&one),
		} {
			if err == nil {
				t.Errorf("%s succeeded", call)
				continue
			}
			for _, part := range []string{"Order customer=ann number=2", table, "version", "Version"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error of %s %q lacks %q", call, err, part)
				}
			}
		}
		same(t, dest, []Order{{Customer: "kept"}})
	})
}

func TestReadsStopWithTheirContext(t *testing.T) {
	t.Parallel()
	api := localdynamotest.New(t)
	orderTable(t, api)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var all []Order
	err := tabletheory.New(api).WithContext(ctx).Model(Order{}).Scan(&all)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want context.Canceled", err)
	}
}

func TestReadOfAMissingTable(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		var account Account
		err := tabletheory.New(api).Model(Account{}).Where("ID", "=", "a").First(&account)
		if !errors.Is(err, tabletheory.ErrTableNotFound) {
			t.Errorf("got error %v, want ErrTableNotFound", err)
		}
	})
}

// The row of the reference document, read as the document does.
func TestReferenceRowsAreRead(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table := cacheTable(t, api)
		pk := "TENANT#t1#CACHE#abc"
		putRaw(t, api, table, attrs{
			"pk": str(pk), "sk": str("META"), "s3_key": str("pages/t1/abc.html"), "generated_at": num("1700000000"),
			"revalidate_seconds": num("60"), "ttl": num("1700086400"), "html_pointer_of_others": str("x"),
		})
		putRaw(t, api, table, attrs{"pk": str(pk), "sk": str("LOCK"), "lease_token": str("token"), "lease_expires_at": num("1700000030")})
		putRaw(t, api, table, attrs{"pk": str(pk), "sk": str("VER#1"), "s3_key": str("v1")})
		putRaw(t, api, table, attrs{"pk": str(pk), "sk": str("VER#2"), "s3_key": str("v2")})
		db := tabletheory.New(api)

		var got FaceTheoryCacheMetadata
		check(t, db.Model(&FaceTheoryCacheMetadata{}).Where("PK", "=", pk).Where("SK", "=", "META").First(&got))
		same(t, got, FaceTheoryCacheMetadata{PK: pk, SK: "META", S3Key: "pages/t1/abc.html", GeneratedAt: 1700000000, RevalidateSeconds: 60, TTL: 1700086400})

		var lease FaceTheoryCacheLease
		check(t, db.Model(&FaceTheoryCacheLease{}).Where("pk", "=", pk).Where("sk", "=", "LOCK").ConsistentRead().First(&lease))
		same(t, lease, FaceTheoryCacheLease{PK: pk, SK: "LOCK", LeaseToken: "token", LeaseExpiresAt: 1700000030})

		var versions []FaceTheoryCacheMetadata
		check(t, db.Model(FaceTheoryCacheMetadata{}).Where("PK", "=", pk).Where("SK", "BEGINS_WITH", "VER#").OrderBy("SK", "DESC").All(&versions))
		same(t, versions, []FaceTheoryCacheMetadata{{PK: pk, SK: "VER#2", S3Key: "v2"}, {PK: pk, SK: "VER#1", S3Key: "v1"}})
	})
}
