package localdynamo_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
)

// scanPage reads one page of a segment and returns the sort keys of its items.
func scanPage(t *testing.T, db *localdynamo.DB, segment, total, limit int, start item) (found []string, next item) {
	t.Helper()
	out, err := db.Scan(t.Context(), &dynamodb.ScanInput{
		TableName: things, Segment: aws.Int32(int32(segment)), TotalSegments: aws.Int32(int32(total)), Limit: aws.Int32(int32(limit)), ExclusiveStartKey: start,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range out.Items {
		found = append(found, it["sk"].(*types.AttributeValueMemberS).Value)
	}
	return found, out.LastEvaluatedKey
}

// TestSegments: the segments of a parallel Scan have each item once, whatever their number, and
// about as many items each. Their ranges outlast a restart and writes between two pages.
func TestSegments(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	options := localdynamo.Options{NoSync: true, SweepInterval: -1}
	db := openAt(t, path, options)
	createTable(t, db, "things", types.ScalarAttributeTypeS)
	const items = 3000
	for i := range items {
		put(t, db, item{"pk": str(fmt.Sprintf("user#%06d", i/3)), "sk": str(fmt.Sprintf("%06d", i))})
	}
	for _, total := range []int{1, 2, 7, 16, 5000} {
		seen, starts := make(map[string]int), make([]item, total)
		largest := 0
		for segment := range total {
			var found []string
			found, starts[segment] = scanPage(t, db, segment, total, 20, nil)
			for _, sk := range found {
				seen[sk]++
			}
		}
		if total == 7 {
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			db = openAt(t, path, options)
		}
		put(t, db, item{"pk": str("zzz"), "sk": str("zzz")}) // in the last segment, if that is not read yet
		for segment, start := range starts {
			n := 20
			for start != nil {
				var found []string
				found, start = scanPage(t, db, segment, total, 100, start)
				for _, sk := range found {
					seen[sk]++
				}
				n += len(found)
			}
			largest = max(largest, n)
		}
		delete(seen, "zzz")
		if len(seen) != items || slices.Max(slices.Collect(maps.Values(seen))) != 1 {
			t.Errorf("%d segments: found %d of %d items, or some twice", total, len(seen), items)
		}
		if total <= 16 && largest > 2*items/total+100 {
			t.Errorf("%d segments: the largest has %d of %d items", total, largest, items)
		}
	}
}

// TestSegmentsAreChosenAnew: the segments of a table that has grown since it was first scanned
// in parallel become even, but not while a Scan may be using them.
func TestSegmentsAreChosenAnew(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	db := open(t, localdynamo.Options{Now: func() time.Time { return now }})
	used := func() (n int) {
		for segment := range 4 {
			if found, _ := scanPage(t, db, segment, 4, 1, nil); len(found) > 0 {
				n++
			}
		}
		return n
	}
	fill := func(n int) {
		for i := range n {
			put(t, db, key(fmt.Sprintf("%08d", i), "x"))
		}
	}
	equal(t, used(), 0)
	fill(1100)
	equal(t, used(), 1)
	now = now.Add(2 * time.Minute)
	equal(t, used(), 4)
	for i := range 5000 {
		put(t, db, key(fmt.Sprintf("z%08d", i), "x"))
	}
	last := func() int {
		found, _ := scanPage(t, db, 3, 4, 10_000, nil)
		return len(found)
	}
	now = now.Add(23 * time.Hour)
	if n := last(); n < 5000 {
		t.Errorf("the ranges have changed within a day: the last has %d items", n)
	}
	now = now.Add(2 * time.Hour)
	if n := last(); n > 2500 {
		t.Errorf("after a day the last range still has %d items", n)
	}
}
