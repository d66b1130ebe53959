package isr_test

import (
	"fmt"
	"net/http"
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

// Fields about one answer reach the visitor who passes through, and nobody by a stored page, whoever
// stored it.
func TestFieldsOfOneAnswer(t *testing.T) {
	const lasting = "Clear-Site-Data Alt-Svc Server-Timing X-Runtime Traceparent X-Nextjs-Cache Surrogate-Control"
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(func(w http.ResponseWriter, _ *http.Request, n int64) {
			for name := range strings.FieldsSeq(lasting) {
				w.Header().Set(name, "max-age=60")
			}
			w.Header().Set("X-Page", "kept")
			fmt.Fprint(w, "page ", n)
		})
		none := func(when string, a answer) {
			t.Helper()
			for name := range strings.FieldsSeq(lasting) {
				if v := a.Header().Get(name); v != "" {
					t.Errorf("%s has %s: %s", when, name, v)
				}
			}
			if a.Header().Get("X-Page") != "kept" {
				t.Errorf("%s lacks X-Page", when)
			}
		}
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		none("a miss", get(h, "/"))
		a := get(h, "/")
		expect(t, a, "page 1", "isr; hit")
		none("a hit", a)

		// An older version stored them.
		_, err := tb.db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: aws.String(tableName),
			Key: map[string]types.AttributeValue{
				"pk": &types.AttributeValueMemberS{Value: store.HashedPartition(page)},
				"sk": &types.AttributeValueMemberS{Value: "META"},
			},
			UpdateExpression:         aws.String("SET isr.headers.#r = :v"),
			ExpressionAttributeNames: map[string]string{"#r": "x-runtime"},
			ExpressionAttributeValues: map[string]types.AttributeValue{
				":v": &types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberS{Value: "0.5"}}},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		a = get(tb.node(tb.store("b"), nil).Handler(isr.Route{}, site), "/")
		expect(t, a, "page 1", "isr; hit")
		none("a page of an older version", a)
	})
}

// The digests of a page are sent with the content and the representation that they are of (RFC 9530).
func TestDigestFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) {
			for _, name := range []string{"Repr-Digest", "Content-Digest", "Digest", "Content-Md5"} {
				w.Header().Set(name, "of the page")
			}
			w.Header().Set("Cache-Control", "s-maxage=60")
			w.Header().Set("Etag", `"v1"`)
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, strings.Repeat("0123456789", 200))
		})
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		get(h, "/")
		get(h, "/", "Accept-Encoding: gzip") // has the coding made
		synctest.Wait()
		for _, tt := range []struct{ ask, want string }{
			{"Accept: */*", "Repr-Digest Content-Digest Digest Content-Md5"},
			{"Accept-Encoding: gzip", ""},
			{"Range: bytes=0-9", "Repr-Digest Digest"},
			{"Range: bytes=0-9,20-29", "Repr-Digest Digest"},
			{`If-None-Match: "v1"`, "Repr-Digest Content-Digest Digest Content-Md5"},
		} {
			var got []string
			a := get(h, "/", tt.ask)
			for _, name := range []string{"Repr-Digest", "Content-Digest", "Digest", "Content-Md5"} {
				if a.Header().Get(name) != "" {
					got = append(got, name)
				}
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("%s: %d with %q, want %q", tt.ask, a.Code, got, tt.want)
			}
		}
	})
}

// A 304 renews a page by its Surrogate-Control, also if the 304 has none, and leaves the policy whose nonce
// is in the body.
func TestRenewalKeepsWhatIsOfTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSource()
		n := 0
		site.answer = func(w http.ResponseWriter, r *http.Request) bool {
			n++
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("Content-Security-Policy", fmt.Sprintf("script-src 'nonce-%d'", n))
			if r.Header.Get("If-None-Match") != "" {
				w.WriteHeader(http.StatusNotModified)
				return true
			}
			w.Header().Set("Surrogate-Control", "max-age=60")
			fmt.Fprintf(w, "<script nonce=%d></script>", n)
			return true
		}
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{Stale: time.Hour}, site)
		get(h, "/")
		time.Sleep(61 * time.Second)
		get(h, "/") // stale, and validated behind
		synctest.Wait()
		a := get(h, "/")
		expect(t, a, "<script nonce=1></script>", "isr; hit; ttl=5")
		if policy := a.Header().Get("Content-Security-Policy"); policy != "script-src 'nonce-1'" || n != 2 {
			t.Errorf("the policy is %q after %d requests", policy, n)
		}
	})
}
