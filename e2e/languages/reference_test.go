package languages

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/internal/vocabulary"
)

func epoch(seconds int64) types.AttributeValue { return number(strconv.FormatInt(seconds, 10)) }

// Rows with only the attributes of the reference documents, as other services write them, are
// read alike by all, served by isr serve, and replaced by all. The same holds for rows that a
// client writes by the reference's own call.
func referenceRows(t *testing.T, c *crew) {
	s := c.serve(t)
	now := time.Now().Unix()
	for i, w := range c.workers {
		path := "/theirs/" + w.language
		key, id := host+path, "theirs-"+w.language
		bodyKey := []string{"theirs/" + id, "s3://" + s.bucket + "/theirs/" + id}[i%2]
		s.store(t, "theirs/"+id, bodyOf(id))
		meta := row{"s3_key": text(bodyKey), "generated_at": epoch(now), "revalidate_seconds": number("600"), "etag": text(`"e"`), "ttl": epoch(now + 86400)}
		theirs := vocabulary.Entry{BodyKey: bodyKey, GeneratedAt: now, Revalidate: 600, ETag: `"e"`, TTL: now + 86400, Foreign: true, Status: http.StatusOK}
		if i == 1 { // only a pointer
			c.put(t, pk(key), "VER#theirs", meta)
			meta = row{"current_sk": text("VER#theirs"), "ttl": epoch(now + 86400)}
		}
		c.put(t, pk(key), "META", meta)
		c.expectCurrent(t, key, theirs, "fresh")
		s.expectServed(t, path, theirs, bodyOf(id))

		c.put(t, pk(key), "LOCK", row{"lease_token": text("theirs"), "lease_expires_at": epoch(now + 900)})
		for _, other := range c.workers {
			other.expectHeld(t, key, lock{ExpiresAt: now + 900})
		}
		w.does(t, command{Do: "break_lease", Key: key})
		w.refuses(t, "NoVersion", command{Do: "pin", Key: key, PinnedUntil: forever})

		published := w.keepVersion(t, key, at(key, generation("ours-"+w.language, 600)))
		c.expectCurrent(t, key, published, "fresh")
	}
	for _, w := range c.workers[1:] { // the clients that have the reference's call
		path := "/committed/" + w.language
		key := host + path
		next := at(key, generation("committed-"+w.language, 600))
		s.store(t, next.BodyKey, bodyOf(next.GenerationID))
		w.acquire(t, key, nil)
		committed := ask[vocabulary.Entry](t, w, command{Do: "commit", Key: key, Entry: next})
		want := vocabulary.Entry{BodyKey: next.BodyKey, GeneratedAt: next.GeneratedAt, Revalidate: 600, ETag: next.ETag, Foreign: true, Status: http.StatusOK}
		if committed.BodyKey != want.BodyKey || !committed.Foreign {
			t.Errorf("%s committed %+v, want %+v", w.language, committed, want)
		}
		c.expectCurrent(t, key, want, "fresh")
		s.expectServed(t, path, want, bodyOf(next.GenerationID))
		for _, other := range c.workers {
			c.expectCurrent(t, key, other.regenerate(t, key, generation("over-"+other.language, 600)), "fresh")
		}
	}
}

// Request records with only the attributes of the reference are understood by all. One in
// progress without an expiry may be taken over by any language.
func referenceRequests(t *testing.T, c *crew) {
	claimed := &claim{Key: "order", Inputs: sameInputs[0]}
	hash := c.hash(t, claimed)
	for _, w := range c.workers {
		key := "site.test/orders/" + w.language
		theirs := row{"request_hash": text(hash), "status": text("COMPLETED"), "result_s3_key": text("theirs/order"), "ttl": epoch(time.Now().Unix() + 600)}
		c.put(t, pk(key), "REQ#order", theirs)
		if r := c.agreeOnRequest(t, key, "order"); r.Status != "COMPLETED" || r.BodyKey != "theirs/order" {
			t.Errorf("completed request record: got %+v", r)
		}
		got := w.refuses(t, "RequestCompleted", command{Do: "acquire", Key: key, LeaseMS: longLease, Claim: claimed})
		if got.BodyKey != "theirs/order" {
			t.Errorf("%s: got the result %q", w.language, got.BodyKey)
		}
		theirs["ttl"] = epoch(time.Now().Unix() - 1) // expired
		c.put(t, pk(key), "REQ#order", theirs)
		w.acquire(t, key, claimed)
		w.does(t, command{Do: "release", Key: key})

		delete(theirs, "result_s3_key")
		theirs["status"], theirs["ttl"] = text("STARTED"), epoch(time.Now().Unix()+600)
		c.put(t, pk(key), "REQ#order", theirs)
		w.acquire(t, key, claimed)
		next := generation("order-of-"+w.language, 600)
		ask[vocabulary.Entry](t, w, command{Do: "publish", Key: key, Entry: next})
		c.completed(t, key, *next, func(int) *claim { return claimed })
	}
}

// hash returns the hash of a claim's inputs, read from the table after the request was started.
func (c *crew) hash(t *testing.T, claimed *claim) string {
	t.Helper()
	const key = "site.test/hashed"
	c.workers[0].acquire(t, key, claimed)
	return c.agreeOnRequest(t, key, claimed.Key).Hash
}
