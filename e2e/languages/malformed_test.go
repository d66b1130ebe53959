package languages

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
)

// A broken is a row with one malformed attribute.
type broken struct {
	name, sk  string
	change    func(row) // makes a valid row malformed
	attribute string    // reported by all languages
}

// sealed is an attribute value as the mapper encrypts it.
func sealed() types.AttributeValue {
	return &types.AttributeValueMemberM{Value: row{
		"v": number("1"), "edk": &types.AttributeValueMemberB{Value: []byte("key")},
		"nonce": &types.AttributeValueMemberB{Value: []byte("nonce")}, "ct": &types.AttributeValueMemberB{Value: []byte("text")},
	}}
}

// brokenRows returns malformed rows of a page: required attributes that are missing, of a wrong
// type, encrypted or out of bounds, and optional attributes of a wrong type.
func brokenRows() []broken {
	with := func(name string, value types.AttributeValue) func(row) {
		return func(r row) { r[name] = value }
	}
	ours := func(name string, value types.AttributeValue) func(row) {
		return func(r row) { r["isr"].(*types.AttributeValueMemberM).Value[name] = value }
	}
	return []broken{
		{"no body", "META", func(r row) { delete(r, "s3_key") }, "s3_key"},
		{"an encrypted body key", "META", with("s3_key", sealed()), "s3_key"},
		{"an empty body key", "META", with("s3_key", text("")), "s3_key"},
		{"a text for a time", "META", with("generated_at", text("1800000000")), "generated_at"},
		{"milliseconds for seconds", "META", with("generated_at", number("1800000000000")), "generated_at"},
		{"an encrypted time", "META", with("generated_at", sealed()), "generated_at"},
		{"no window", "META", func(r row) { delete(r, "revalidate_seconds") }, "revalidate_seconds"},
		{"an encrypted etag", "META", with("etag", sealed()), "etag"},
		{"a text for a ttl", "META", with("ttl", text("never")), "ttl"},
		{"a number for a pointer", "META", with("current_sk", number("1")), "current_sk"},
		{"a pointer to nothing", "META", with("current_sk", text("VER#gone")), "current_sk"},
		{"a text for the fence", "META", ours("v", text("1")), "isr.v"},
		{"no status", "META", func(r row) { delete(r["isr"].(*types.AttributeValueMemberM).Value, "status") }, "isr.status"},
		{"an invalid status", "META", ours("status", number("42")), "isr.status"},
		{"an encrypted length", "META", ours("content_length", sealed()), "isr.content_length"},
		{"encrypted header fields", "META", ours("headers", text("sealed")), "isr.headers"},
		{"a text for tags", "META", ours("tags", text("news")), "isr.tags"},
		{"a text for a sequence", "META", ours("purge_seq", text("7")), "isr.purge_seq"},
		{"a negative sequence", "META", ours("purge_seq", number("-1")), "isr.purge_seq"},
		{"no sequence of a purge", "PURGE", func(r row) { delete(r, "seq") }, "seq"},
		{"an encrypted purge", "PURGE", with("hard_seq", sealed()), "hard_seq"},
		{"a text for the time of a purge", "PURGE", with("at", text("now")), "at"},
	}
}

// All languages report the same row and attribute for a malformed or encrypted value. None
// serves such a row, and all can replace it.
func malformedRows(t *testing.T, c *crew) {
	for i, b := range brokenRows() {
		key := "site.test/broken/" + b.name
		p := pk(key)
		c.after(i, 0).regenerate(t, key, generation("whole", 600))
		if b.sk == "PURGE" {
			c.put(t, p, b.sk, row{"seq": number("1"), "at": epoch(time.Now().Unix())})
		}
		stored := c.get(t, p, b.sk)
		b.change(stored)
		c.put(t, p, b.sk, stored)
		want := malformed{PK: p, SK: b.sk, Attribute: b.attribute}
		if read := c.agree(t, key); read.Entry != nil || read.Malformed == nil || *read.Malformed != want {
			t.Errorf("%s: entry %+v, malformed %+v; want no entry, and %+v", b.name, read.Entry, read.Malformed, want)
		}
		if b.sk != "META" {
			continue
		}
		for _, w := range c.workers {
			c.put(t, p, b.sk, stored)
			c.expectCurrent(t, key, w.regenerate(t, key, generation("mended-by-"+w.language, 600)), "fresh")
		}
	}
	c.malformedRequests(t)
	c.malformedSequence(t)
}

// A malformed request record may belong to an executed request, so no language executes it
// again.
func (c *crew) malformedRequests(t *testing.T) {
	t.Helper()
	const key = "site.test/broken-requests"
	claimed := &claim{Key: "order", Inputs: sameInputs[0]}
	for attribute, value := range map[string]types.AttributeValue{"request_hash": sealed(), "status": text("DONE"), "result_s3_key": sealed()} {
		r := row{"request_hash": text("h"), "status": text("COMPLETED"), "result_s3_key": text("theirs"), "ttl": epoch(time.Now().Unix() + 600)}
		r[attribute] = value
		c.put(t, pk(key), "REQ#order", r)
		for _, w := range c.workers {
			for _, asked := range []command{
				{Do: "request", Key: key, Request: "order"},
				{Do: "acquire", Key: key, LeaseMS: longLease, Claim: claimed},
			} {
				w.expectMalformed(t, asked, malformed{PK: pk(key), SK: "REQ#order", Attribute: attribute})
			}
		}
	}
	for _, w := range c.workers {
		if p := ask[page](t, w, command{Do: "read", Key: key}); p.Lock != nil {
			t.Errorf("%s: the refused request left the lease %+v", w.language, p.Lock)
		}
	}
}

// A malformed log sequence is never read as zero: renders and rollbacks fail.
func (c *crew) malformedSequence(t *testing.T) {
	t.Helper()
	const key = "site.test/without-sequence"
	c.workers[0].keepVersion(t, key, generation("kept", 600))
	c.put(t, "PURGE", "SEQ", row{"seq": sealed()})
	want := malformed{PK: "PURGE", SK: "SEQ", Attribute: "seq"}
	for _, w := range c.workers {
		w.expectMalformed(t, command{Do: "sequence"}, want)
		w.expectMalformed(t, command{Do: "rollback", Key: key, To: "kept"}, want)
	}
	for _, w := range c.workers[1:] { // the clients whose acquisition reads the sequence
		w.expectMalformed(t, command{Do: "acquire", Key: key, LeaseMS: longLease}, want)
		if p := ask[page](t, w, command{Do: "read", Key: key}); p.Lock != nil {
			t.Errorf("%s: the failed acquisition left the lease %+v", w.language, p.Lock)
		}
	}
	c.put(t, "PURGE", "SEQ", row{"seq": number("1")})

	c.put(t, "PURGE", "LOG#00000000000000000001", row{"targets": sealed()})
	for _, w := range c.workers {
		w.expectMalformed(t, command{Do: "changes"}, malformed{PK: "PURGE", SK: "LOG#00000000000000000001", Attribute: "targets"})
	}
}

// expectMalformed expects the error to report this row and attribute.
func (w *worker) expectMalformed(t *testing.T, asked command, want malformed) {
	t.Helper()
	if diff := cmp.Diff(want, w.refuses(t, "MalformedRow", asked).malformed); diff != "" {
		t.Errorf("%s: error of %s (-want +got):\n%s", w.language, asked.Do, diff)
	}
}
