package isr_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// putForeign writes a page as another service does: the reference attributes only.
func (tb *table) putForeign(k store.Key, bodyKey, body string) {
	tb.t.Helper()
	if err := tb.bodies.Put(tb.t.Context(), bodyKey, []byte(body)); err != nil {
		tb.t.Fatal(err)
	}
	tb.putRow(map[string]types.AttributeValue{
		"pk":                 &types.AttributeValueMemberS{Value: store.HashedPartition(k)},
		"sk":                 &types.AttributeValueMemberS{Value: "META"},
		"s3_key":             &types.AttributeValueMemberS{Value: bodyKey},
		"generated_at":       &types.AttributeValueMemberN{Value: strconv.FormatInt(time.Now().Unix(), 10)},
		"revalidate_seconds": &types.AttributeValueMemberN{Value: "60"},
		"etag":               &types.AttributeValueMemberS{Value: `"theirs"`},
	})
}

func (tb *table) putRow(row map[string]types.AttributeValue) {
	tb.t.Helper()
	_, err := tb.db.PutItem(tb.t.Context(), &dynamodb.PutItemInput{TableName: aws.String(tableName), Item: row})
	if err != nil {
		tb.t.Fatal(err)
	}
}

func TestForeignPageIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		tb.putForeign(page, "pages/theirs.html", "<!doctype html><p>theirs")
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{Stale: time.Hour}, site)
		a := get(h, "/")
		expect(t, a, "<!doctype html><p>theirs", "isr; hit; ttl=")
		if a.Header().Get("Etag") != `"theirs"` || a.Header().Get("Content-Type") != "text/html; charset=utf-8" {
			t.Errorf("header %v", a.Header())
		}
		time.Sleep(time.Minute + time.Second)
		expect(t, get(h, "/"), "<!doctype html><p>theirs", "isr; hit; ttl=-")
		time.Sleep(2 * time.Second)
		expect(t, get(h, "/"), "/ rendered 1", "isr; hit; ttl=")
	})
}

// Services of the reference documents may write new content under the same body key.
func TestForeignRewriteIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		tb.putForeign(page, "pages/theirs.html", "first")
		expect(t, get(h, "/"), "first", "isr; hit")
		time.Sleep(2 * time.Minute)
		if err := tb.bodies.Delete(t.Context(), "pages/theirs.html"); err != nil {
			t.Fatal(err)
		}
		tb.putForeign(page, "pages/theirs.html", "second")
		get(h, "/") // stale, and looks behind
		time.Sleep(time.Second)
		expect(t, get(h, "/"), "second", "isr; hit; ttl=")
		if n := site.renders.Load(); n != 0 {
			t.Errorf("%d renders", n)
		}
	})
}

func TestMalformedRowCountsAsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		tb.putRow(map[string]types.AttributeValue{
			"pk":           &types.AttributeValueMemberS{Value: store.HashedPartition(page)},
			"sk":           &types.AttributeValueMemberS{Value: "META"},
			"s3_key":       &types.AttributeValueMemberN{Value: "1"},
			"generated_at": &types.AttributeValueMemberBOOL{Value: true},
		})
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		expect(t, get(h, "/"), "/ rendered 1", "isr; fwd=miss; fwd-status=200; stored")
		expect(t, get(h, "/"), "/ rendered 1", "isr; hit")
	})
}

// A purge of the key covers earlier renders.
func TestPurgeRowCovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		get(tb.node(tb.store("a"), nil).Handler(isr.Route{}, site), "/")
		tb.purge(page, 1)
		h := tb.node(tb.store("b"), nil).Handler(isr.Route{}, site)
		expect(t, get(h, "/"), "/ rendered 2", "isr; fwd=miss; fwd-status=200; stored")
		expect(t, get(h, "/"), "/ rendered 2", "isr; hit")
	})
}

// Once a node has read that a page was purged, it does not serve the page from memory, nor
// in place of a failure.
func TestKnownPurgesApplyToMemory(t *testing.T) {
	for _, policy := range []isr.Policy{isr.ServeStale, isr.Wait} {
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				h := tb.node(tb.store("a"), nil).Handler(isr.Route{Policy: policy}, site)
				get(h, "/")
				time.Sleep(70 * time.Second)
				site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) { w.WriteHeader(http.StatusInternalServerError) })
				tb.purge(page, 1)
				first := get(h, "/")
				time.Sleep(2 * time.Second)
				if policy == isr.ServeStale {
					expect(t, first, "/ rendered 1", "isr; hit") // before any read of the table
					first = get(h, "/")
				}
				for _, a := range []answer{first, get(h, "/")} {
					if a.Code < http.StatusInternalServerError || strings.Contains(a.Body.String(), "rendered 1") {
						t.Errorf("got %d %q, %q: a purged page, or no failure", a.Code, a.Body, a.status())
					}
				}
			})
		})
	}
}

// marksLast sets the lifetime of purge marks in SEQ.
func (tb *table) marksLast(d time.Duration) {
	tb.putRow(map[string]types.AttributeValue{
		"pk":            &types.AttributeValueMemberS{Value: "PURGE"},
		"sk":            &types.AttributeValueMemberS{Value: "SEQ"},
		"seq":           &types.AttributeValueMemberN{Value: "0"},
		"mark_lifetime": &types.AttributeValueMemberN{Value: strconv.FormatInt(int64(d/time.Second), 10)},
	})
}

// A page that may outlive purge marks that cover it is not fresh, neither when it is read
// from the store, nor if it was in memory before the lifetime of marks was known.
func TestPagesDoNotOutliveMarks(t *testing.T) {
	yearly := func(w http.ResponseWriter, r *http.Request, n int64) {
		w.Header().Set("Cache-Control", "public, max-age=31536000, stale-while-revalidate=86400")
		fmt.Fprintf(w, "%s rendered %d", r.URL.Path, n)
	}
	const lifetime = 48 * time.Hour // less a day, in which a mark may be written
	for name, known := range map[string]bool{"known at start": true, "learnt later": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				site.answers(yearly)
				if known {
					tb.marksLast(lifetime)
				}
				slowly := func(cfg *isr.Config) { cfg.Poll = time.Minute }
				a := tb.node(tb.store("a"), slowly).Handler(isr.Route{}, site)
				get(a, "/")
				if !known {
					tb.marksLast(lifetime)
				}
				time.Sleep(23*time.Hour + 50*time.Minute)
				late := tb.node(tb.store("late"), slowly).Handler(isr.Route{}, site)
				expect(t, get(late, "/"), "/ rendered 1", "isr; hit")
				expect(t, get(a, "/"), "/ rendered 1", "isr; hit")
				time.Sleep(20 * time.Minute)
				expect(t, get(a, "/"), "/ rendered 2", "isr; fwd=stale")
				expect(t, get(late, "/"), "/ rendered 2", "isr; hit")
			})
		})
	}
}

// purge records a hard purge of a page, as the table does.
func (tb *table) purge(k store.Key, seq int64) {
	tb.t.Helper()
	number := func(n int64) types.AttributeValue {
		return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
	}
	now := time.Now().Unix()
	tb.putRow(map[string]types.AttributeValue{
		"pk": &types.AttributeValueMemberS{Value: "PURGE"}, "sk": &types.AttributeValueMemberS{Value: "SEQ"},
		"seq": number(seq), "mark_lifetime": number(40 * 24 * 3600),
	})
	tb.putRow(map[string]types.AttributeValue{
		"pk": &types.AttributeValueMemberS{Value: store.HashedPartition(k)}, "sk": &types.AttributeValueMemberS{Value: "PURGE"},
		"seq": number(seq), "hard_seq": number(seq), "at": number(now), "ttl": number(now + 40*24*3600),
	})
}
