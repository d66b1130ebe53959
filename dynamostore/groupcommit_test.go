package dynamostore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/store"
)

// A distantAPI adds network latency: 4 to 8 ms, half of it before the call reaches the
// engine.
type distantAPI struct {
	dynamostore.API

	mu  sync.Mutex
	rng *rand.Rand // guarded by mu
}

func travel[O any](d *distantAPI, call func() (*O, error)) (*O, error) {
	d.mu.Lock()
	half := 2*time.Millisecond + time.Duration(d.rng.Int64N(int64(2*time.Millisecond)))
	d.mu.Unlock()
	time.Sleep(half)
	defer time.Sleep(half)
	return call()
}

func (d *distantAPI) GetItem(ctx context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return travel(d, func() (*dynamodb.GetItemOutput, error) { return d.API.GetItem(ctx, in) })
}

func (d *distantAPI) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	return travel(d, func() (*dynamodb.BatchGetItemOutput, error) { return d.API.BatchGetItem(ctx, in) })
}

func (d *distantAPI) Query(ctx context.Context, in *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	return travel(d, func() (*dynamodb.QueryOutput, error) { return d.API.Query(ctx, in) })
}

func (d *distantAPI) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, _ ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	return travel(d, func() (*dynamodb.TransactWriteItemsOutput, error) { return d.API.TransactWriteItems(ctx, in) })
}

// A crowd is many pages on one table, and stores some milliseconds away from it.
type crowd struct {
	t      *testing.T
	table  rawTable
	near   *dynamostore.Store
	stores []*dynamostore.Store
}

func newCrowd(t *testing.T, stores int) *crowd {
	t.Helper()
	db := localdynamo.OpenMemory(localdynamo.Options{SweepInterval: -1})
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	c := &crowd{t: t, table: rawTable{t: t, db: db, name: newTable(t, db)}}
	c.near = newStore(t, db, c.table.name, dynamostore.Config{})
	for i := range stores {
		rng := rand.New(rand.NewPCG(1, uint64(i)))
		c.stores = append(c.stores, newStore(t, &distantAPI{API: db, rng: rng}, c.table.name, dynamostore.Config{
			RetryDelay: 25 * time.Millisecond, // the default
		}))
	}
	return c
}

func crowdPK(page int) string { return fmt.Sprintf("CACHE#%d", page) }

// publish publishes pages.
func (c *crowd) publish(pages int) {
	c.t.Helper()
	now := time.Now()
	for page := range pages {
		l, read := begin(c.t, c.near, crowdPK(page))
		next := store.Entry{
			BodyKey: fmt.Sprintf("bodies/%d", page), GenerationID: fmt.Sprintf("g%d", page), GeneratedAt: now,
			Revalidate: time.Minute, Status: http.StatusOK, Length: 1, Tags: []string{"news"},
		}
		if _, err := c.near.Publish(c.t.Context(), l, read, next, store.PublishOptions{}); err != nil {
			c.t.Fatal(err)
		}
	}
}

// pin pins a page by a store, and checks the result.
func (c *crowd) pin(store *dynamostore.Store, page int) {
	read, err := store.Read(c.t.Context(), crowdPK(page))
	if err == nil {
		_, err = store.Pin(c.t.Context(), read, pageAssertion(page))
	}
	if err != nil {
		c.t.Errorf("page %d: %v", page, err)
	}
}

func pageAssertion(page int) store.Assertion {
	return store.Assertion{Key: store.Key{Text: fmt.Sprintf("example.com/%d", page)}, At: time.Now(), PinnedUntil: store.Forever()}
}

// wantLogged checks that the log has every page once, without gaps, and returns the
// number of rows.
func (c *crowd) wantLogged(pages int) (rows int) {
	c.t.Helper()
	told := make(map[string]int)
	for {
		_, changes, err := c.near.Changes(c.t.Context(), int64(rows))
		if err != nil {
			c.t.Fatal(err)
		}
		if len(changes) == 0 {
			break
		}
		for _, change := range changes {
			if rows++; change.Seq != int64(rows) {
				c.t.Fatalf("sequence %d follows %d", change.Seq, rows-1)
			}
			for _, k := range change.Reload {
				told[k.Text]++
			}
		}
	}
	for page := range pages {
		read, err := c.near.Read(c.t.Context(), crowdPK(page))
		if err != nil || !read.Entry.PinnedUntil.Equal(store.Forever()) {
			c.t.Errorf("page %d: %+v, %v: want it pinned", page, read.Entry, err)
		}
		if n := told[fmt.Sprintf("example.com/%d", page)]; n != 1 {
			c.t.Errorf("page %d is in the log %d times", page, n)
		}
	}
	return rows
}

// TestThousandConcurrentChanges: concurrent changes of one store do not refuse each
// other, and share transactions.
func TestThousandConcurrentChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const pages = 1000
		c := newCrowd(t, 1)
		c.publish(pages)
		began := time.Now()
		var group sync.WaitGroup
		for page := range pages {
			group.Go(func() { c.pin(c.stores[0], page) })
		}
		group.Wait()
		took := time.Since(began)
		if rows := c.wantLogged(pages); rows > pages/50 {
			t.Errorf("%d changes took %d transactions", pages, rows)
		}
		t.Logf("%d changes at once took %v", pages, took)
		if took > pages/100*time.Second {
			t.Errorf("%d changes took %v: less than 100 a second", pages, took)
		}
	})
}

// TestSustainedChanges: a stream of 150 changes a second does not build up a queue.
func TestSustainedChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const pages = 1500
		c := newCrowd(t, 1)
		c.publish(pages)
		began := time.Now()
		var group sync.WaitGroup
		for page := range pages {
			group.Go(func() { c.pin(c.stores[0], page) })
			time.Sleep(time.Second / 150)
		}
		group.Wait()
		c.wantLogged(pages)
		if took := time.Since(began); took > 10*time.Second+200*time.Millisecond {
			t.Errorf("ten seconds of changes took %v", took)
		}
	})
}

// TestChangesOfSeveralStores: no store that contends for the sequence starves.
func TestChangesOfSeveralStores(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const each = 100
		c := newCrowd(t, 3)
		c.publish(3 * each)
		began := time.Now()
		var group sync.WaitGroup
		for page := range 3 * each {
			group.Go(func() { c.pin(c.stores[page%3], page) })
		}
		group.Wait()
		c.wantLogged(3 * each)
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("%d changes through three stores took %v", 3*each, took)
		}
	})
}

// TestStreamsOfSeveralStores: a store with occasional changes makes progress next to
// two busy ones.
func TestStreamsOfSeveralStores(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const pages = 1200
		c := newCrowd(t, 3)
		c.publish(pages)
		var group sync.WaitGroup
		took := make([]time.Duration, pages)
		for page := range pages {
			switch {
			case page%100 == 0:
				group.Go(func() {
					began := time.Now()
					c.pin(c.stores[2], page)
					took[page] = time.Since(began)
				})
			default:
				group.Go(func() { c.pin(c.stores[page%2], page) })
			}
			time.Sleep(5 * time.Millisecond)
		}
		group.Wait()
		c.wantLogged(pages)
		slowest := slices.Max(took)
		t.Logf("the slowest change of the store that makes few took %v", slowest)
		if slowest > 3*time.Second {
			t.Errorf("a change of a store next to two busy ones took %v", slowest)
		}
	})
}
