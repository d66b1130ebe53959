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

// Rows with the attributes of the reference alone, as services write that know its
// documents and none of ours, are read alike by all, served by isr serve, and replaced
// by all; and so are those that a client writes by the reference's call.
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
		if i == 1 { // by a pointer alone
			c.put(t, pk(key), "VER#theirs", meta)
			meta = row{"current_sk": text("VER#theirs"), "ttl": epoch(now + 86400)}
		}
		c.put(t, pk(key), "META", meta)
		c.expectCurrent(t, key, theirs, "fresh")
		s.expectServed(t, path, theirs, bodyOf(id))

		c.put(t, pk(key), "LOCK", row{"lease_token": text("theirs"), "lease_expires_at": epoch(now + 900)})
		for _, other := range c.workers {
			other.isRefused(t, key, lock{ExpiresAt: now + 900})
		}
		w.does(t, command{Do: "break_lease", Key: key})
		w.refuses(t, "NoVersion", command{Do: "pin", Key: key, PinnedUntil: forever})

		published := w.keepVersion(t, key, at(key, generation("ours-"+w.language, 600)))
		c.expectCurrent(t, key, published, "fresh")
	}
	for _, w := range c.workers[1:] { // those that have the call of the reference
		path := "/committed/" + w.language
		key := host + path
		next := at(key, generation("committed-"+w.language, 600))
		s.store(t, next.BodyKey, bodyOf(next.GenerationID))
		w.acquire(t, key, nil)
		committed := ask[vocabulary.Entry](t, w, command{Do: "commit", Key: key, Entry: next})
		want := vocabulary.Entry{BodyKey: next.BodyKey, GeneratedAt: next.GeneratedAt, Revalidate: 600, ETag: next.ETag, Foreign: true, Status: http.StatusOK}
		if committed.BodyKey != want.BodyKey || !committed.Foreign {
			t.Errorf("%s says it committed %+v, want %+v", w.language, committed, want)
		}
		c.expectCurrent(t, key, want, "fresh")
		s.expectServed(t, path, want, bodyOf(next.GenerationID))
		for _, other := range c.workers {
			c.expectCurrent(t, key, other.regenerate(t, key, generation("over-"+other.language, 600)), "fresh")
		}
	}
}

// Requests that others record by the reference's attributes alone are told by all; one
// that does not say until when it is in progress may be taken over, by any.
func referenceRequests(t *testing.T, c *crew) {
	claimed := &claim{Key: "order", Inputs: sameInputs[0]}
	hash := c.hash(t, claimed)
	for _, w := range c.workers {
		key := "site.test/orders/" + w.language
		theirs := row{"request_hash": text(hash), "status": text("COMPLETED"), "result_s3_key": text("theirs/order"), "ttl": epoch(time.Now().Unix() + 600)}
		c.put(t, pk(key), "REQ#order", theirs)
		if r := c.agreeOnRequest(t, key, "order"); r.Status != "COMPLETED" || r.BodyKey != "theirs/order" {
			t.Errorf("the request that was completed is %+v", r)
		}
		told := w.refuses(t, "RequestCompleted", command{Do: "acquire", Key: key, LeaseMS: longLease, Claim: claimed})
		if told.BodyKey != "theirs/order" {
			t.Errorf("%s is told that the result is %q", w.language, told.BodyKey)
		}
		theirs["ttl"] = epoch(time.Now().Unix() - 1) // its time is over
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

// hash is that of the inputs of a claim, by the table: of a request that is started.
func (c *crew) hash(t *testing.T, claimed *claim) string {
	t.Helper()
	const key = "site.test/hashed"
	c.workers[0].acquire(t, key, claimed)
	return c.agreeOnRequest(t, key, claimed.Key).Hash
}
