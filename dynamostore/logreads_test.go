package dynamostore_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/store"
)

// A replicaAPI alters what queries find: the eventually consistent ones always, and as
// many strongly consistent ones as torn says.
type replicaAPI struct {
	dynamostore.API
	alter        func([]map[string]types.AttributeValue) []map[string]types.AttributeValue
	torn         int
	weak, strong int // queries
}

func (a *replicaAPI) Query(ctx context.Context, in *dynamodb.QueryInput, o ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	out, err := a.API.Query(ctx, in, o...)
	altered := a.alter != nil
	if aws.ToBool(in.ConsistentRead) {
		a.strong++
		altered = altered && a.torn > 0
		a.torn--
	} else {
		a.weak++
	}
	if err == nil && altered {
		out.Items = a.alter(out.Items)
	}
	return out, err
}

// A replicaFixture has a log of ten changes, each of which reloads the page of its number.
type replicaFixture struct {
	*fixture
	api   *replicaAPI
	store *dynamostore.Store
	log   bytes.Buffer
}

func newReplicaFixture(t *testing.T) *replicaFixture {
	f := &replicaFixture{fixture: newFixture(t, localDynamo(t))}
	f.api = &replicaAPI{API: f.raw.db}
	f.store = newStore(t, f.api, f.raw.name, dynamostore.Config{Now: f.clock.Now, Logger: slog.New(slog.NewTextHandler(&f.log, nil))})
	for seq := range 10 {
		f.put(int64(seq+1), fmt.Sprint("page/", seq+1))
	}
	f.raw.put("PURGE", "SEQ", attrs{"seq": num("10")})
	return f
}

func (f *replicaFixture) put(seq int64, page string) {
	f.raw.put("PURGE", fmt.Sprintf("LOG#%020d", seq), attrs{"targets": list(obj(attrs{"kind": str("reload"), "key": str(page)}))})
}

// want checks the rows after a sequence, and how many queries they took.
func (f *replicaFixture) want(after, end int64, weak, strong int) {
	f.t.Helper()
	f.api.weak, f.api.strong = 0, 0
	seq, got, err := f.store.Changes(f.t.Context(), after)
	if err != nil || seq.Seq != end {
		f.t.Errorf("Changes after %d: up to %d, %v; want %d", after, seq.Seq, err, end)
	}
	var want []store.Change
	for n := after + 1; n <= end; n++ {
		want = append(want, store.Change{Seq: n, Reload: []store.Key{{Text: fmt.Sprint("page/", n)}}})
	}
	if d := diff(want, got); d != "" {
		f.t.Errorf("Changes after %d (-want +got):\n%s", after, d)
	}
	if f.api.weak != weak || f.api.strong != strong {
		f.t.Errorf("Changes after %d: %d weak and %d strong queries, want %d and %d", after, f.api.weak, f.api.strong, weak, strong)
	}
}

// A replica that lags, or a transaction that is seen in part, never hides a change.
func TestChangesOfReplicasThatLag(t *testing.T) {
	type rows = []map[string]types.AttributeValue
	for name, test := range map[string]struct {
		alter        func(rows) rows
		torn         int
		weak, strong int
	}{
		"up to date":           {nil, 0, 1, 0},
		"nothing yet":          {func(rows) rows { return nil }, 0, 1, 1},
		"all but the last":     {func(r rows) rows { return r[:max(len(r)-1, 0)] }, 0, 1, 1},
		"all but the first":    {func(r rows) rows { return r[1:] }, 0, 1, 1},
		"all but one":          {func(r rows) rows { return slices.Delete(r, 3, 4) }, 0, 1, 1},
		"one that was damaged": {func(r rows) rows { delete(r[2], "targets"); return r }, 0, 1, 1},
		"seen in part, twice":  {func(r rows) rows { return r[:4] }, 2, 1, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newReplicaFixture(t)
				f.want(10, 10, 0, 1) // looks for strays
				f.want(10, 10, 0, 0)
				f.api.alter, f.api.torn = test.alter, test.torn
				f.want(2, 10, test.weak, test.strong)
			})
		})
	}
}

// A row that stays missing is left to the reader, after a bounded time.
func TestChangesWithAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newReplicaFixture(t)
		f.want(10, 10, 0, 1)
		f.raw.set("PURGE", "LOG#00000000000000000005", nil)
		f.api.strong = 0
		began := time.Now()
		_, got, err := f.store.Changes(t.Context(), 3)
		if err != nil || len(got) != 6 || got[1].Seq != 6 {
			t.Errorf("%+v, %v", got, err)
		}
		if took := time.Since(began); took > time.Second || f.api.strong != 4 {
			t.Errorf("%v, %d strongly consistent reads", took, f.api.strong)
		}
	})
}

// The change that gets the sequence of a row beyond the end of the log, which a restored
// table can have, replaces it. An old replica still has the former row.
func TestChangesThatReplaceStrayRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newReplicaFixture(t)
		f.put(12, "stray")
		f.want(10, 10, 0, 1)
		if !strings.Contains(f.log.String(), "ignoring rows beyond the end of the log") {
			t.Error("the log does not tell of the row")
		}
		f.put(11, "page/11")
		f.put(12, "page/12")
		f.raw.put("PURGE", "SEQ", attrs{"seq": num("12")})
		f.api.alter = func(rows []map[string]types.AttributeValue) []map[string]types.AttributeValue {
			for _, row := range rows {
				row["targets"] = list(obj(attrs{"kind": str("reload"), "key": str("stray")}))
			}
			return rows
		}
		f.want(10, 12, 0, 1)
		f.put(13, "page/13")
		f.raw.put("PURGE", "SEQ", attrs{"seq": num("13")})
		f.api.alter = nil
		f.want(12, 13, 1, 0)
		time.Sleep(time.Minute)
		f.want(13, 13, 0, 1) // looks again
		if n := strings.Count(f.log.String(), "ignoring rows"); n != 1 {
			t.Errorf("%d lines about one row", n)
		}
	})
}
