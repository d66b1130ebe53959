package languages

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/facetheory/isr/internal/vocabulary"
)

// future is the name of an attribute of a possible later version of the schema.
const future = "future"

// newer returns a value for it, with every DynamoDB type.
func newer() types.AttributeValue {
	return &types.AttributeValueMemberM{Value: row{
		"edk": &types.AttributeValueMemberB{Value: []byte{0, 255, 128}}, "n": number("12345678901234567890123456789012345678"),
		"null": &types.AttributeValueMemberNULL{Value: true}, "bool": &types.AttributeValueMemberBOOL{Value: false},
		"empty": text(""), "set": &types.AttributeValueMemberSS{Value: []string{"b", "ü"}},
		"list": &types.AttributeValueMemberL{Value: []types.AttributeValue{number("0.1"), text("größe")}},
	}}
}

// Unknown attributes and rows do not disturb reads, and survive every operation.
func unknownAttributes(t *testing.T, c *crew) {
	c.put(t, "PURGE", "SEQ", row{"seq": number("7"), "mark_lifetime": number("8640000"), future: newer()})
	c.put(t, "PURGE", "LOG#00000000000000000007", row{
		"targets": &types.AttributeValueMemberL{Value: []types.AttributeValue{
			&types.AttributeValueMemberM{Value: row{"kind": text("of a newer version"), future: newer()}},
			&types.AttributeValueMemberM{Value: row{"kind": text("reload"), "key": text("site.test/known"), future: newer()}},
		}}, future: newer(),
	})
	want := []change{{Seq: 7, Reload: []string{"site.test/known"}}}
	for _, w := range c.workers {
		if diff := diffOf(want, ask[[]change](t, w, command{Do: "changes", After: 6})); diff != "" {
			t.Errorf("%s: changes in the log (-want +got):\n%s", w.language, diff)
		}
	}
	for i, w := range c.workers {
		c.surviveOne(t, w, c.after(i, 1))
	}
	c.expectFuture(t, "PURGE", "SEQ", "PURGE", "LOG#00000000000000000007")
}

// surviveOne has one worker perform every operation on a page that another published.
func (c *crew) surviveOne(t *testing.T, w, author *worker) {
	t.Helper()
	key := "site.test/newer/" + w.language
	p := pk(key)
	first := author.keepVersion(t, key, generation("first", 600))
	for _, sk := range []string{"META", "VER#first"} {
		c.set(t, p, sk, future, newer())
		c.set(t, p, sk, "isr."+future, newer())
	}
	strange := []string{"LOCK#2", "MARK", "META#2", "PURGED", "QUEUE#1", "VER", "ZONE"}
	for _, sk := range strange {
		c.put(t, p, sk, row{future: newer(), "s3_key": number("1"), "isr": text("none")})
	}
	now := time.Now().Unix()
	c.put(t, p, "PURGE", row{"seq": epoch(first.PurgeSeq + 1), "at": epoch(now), future: newer()})
	c.expectCurrent(t, key, first, "stale")
	c.put(t, p, "REQ#order", row{
		"request_hash": text(c.hash(t, &claim{Key: "order-" + w.language, Inputs: sameInputs[0]})), "status": text("FAILED"),
		"ttl": epoch(now + 3600), future: newer(),
	})
	c.workers[0].does(t, command{Do: "release", Key: "site.test/hashed"})

	w.acquire(t, key, &claim{Key: "order", Inputs: sameInputs[0]})
	c.set(t, p, "LOCK", future, newer())
	w.does(t, command{Do: "refresh", Key: key})
	c.expectFuture(t, p, "LOCK")
	ask[vocabulary.Entry](t, w, command{Do: "publish", Key: key, Entry: generation("second", 600), History: true})
	ask[vocabulary.Entry](t, w, command{Do: "rollback", Key: key, To: "first"})
	ask[vocabulary.Entry](t, w, command{Do: "pin", Key: key, PinnedUntil: forever})
	ask[vocabulary.Entry](t, w, command{Do: "unpin", Key: key})
	w.acquire(t, key, nil)
	w.does(t, command{Do: "back_off", Key: key, PauseMS: longLease})
	w.does(t, command{Do: "break_lease", Key: key})
	third := w.regenerate(t, key, generation("third", 600))

	c.expectCurrent(t, key, third, "fresh")
	c.expectFuture(t, p, "META", p, "VER#first", p, "PURGE", p, "REQ#order")
	for _, sk := range strange {
		want := row{"pk": text(p), "sk": text(sk), future: newer(), "s3_key": number("1"), "isr": text("none")}
		if diff := cmp.Diff(want, c.get(t, p, sk), ignoreUnexported); diff != "" {
			t.Errorf("%s changed the unknown row %s (-want +got):\n%s", w.language, sk, diff)
		}
	}
}

// expectFuture expects rows, given by pk and sk, to still have the unknown attribute.
func (c *crew) expectFuture(t *testing.T, keys ...string) {
	t.Helper()
	for i := 0; i < len(keys); i += 2 {
		if diff := cmp.Diff(newer(), c.get(t, keys[i], keys[i+1])[future], ignoreUnexported); diff != "" {
			t.Errorf("%s %s: the unknown attribute has changed (-want +got):\n%s", keys[i], keys[i+1], diff)
		}
	}
}

// ignoreUnexported ignores the unexported fields of the SDK's values.
var ignoreUnexported = cmpopts.IgnoreUnexported(
	types.AttributeValueMemberB{}, types.AttributeValueMemberBOOL{}, types.AttributeValueMemberL{}, types.AttributeValueMemberM{},
	types.AttributeValueMemberN{}, types.AttributeValueMemberNULL{}, types.AttributeValueMemberS{}, types.AttributeValueMemberSS{},
)
