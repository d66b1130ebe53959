package dynamostore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/facetheory/isr/store"
)

// TestVariantRows: the row of a variant is extended, and never shortened; what another
// writer has added to it stays. One that is listed for ever has no ttl.
func TestVariantRows(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f, b := metered(t, db)
		const sk = "VARIANT#754e901f5d48251569b30d6d1b2485802d841e4eef5d3da574c4621c79290a9a"
		k := store.Key{Text: "example.com/#lang=de"}
		now := f.clock.Now()
		f.raw.put(pk, sk, attrs{"theirs": str("x")})
		for _, c := range []struct {
			until time.Time
			want  int64 // 0: for ever
		}{
			{now.Add(time.Hour), seconds64(now.Add(time.Hour))},
			{now.Add(time.Minute), seconds64(now.Add(time.Hour))},
			{now.Add(2 * time.Hour), seconds64(now.Add(2 * time.Hour))},
			{store.Forever(), 0},
			{now.Add(3 * time.Hour), 0},
		} {
			if err := f.store.AddVariant(t.Context(), pk, k, c.until); err != nil {
				t.Fatal(err)
			}
			want := attrs{"theirs": str("x"), "key": str(k.Text), "listed_until": num(fmt.Sprint(store.Forever().Unix()))}
			if c.want > 0 {
				want["listed_until"], want["ttl"] = num(fmt.Sprint(c.want)), num(fmt.Sprint(c.want+86400))
			}
			got := f.raw.get(pk, sk)
			delete(got, "pk")
			delete(got, "sk")
			if d := diff(want, got); d != "" {
				t.Errorf("until %v (-want +got):\n%s", c.until, d)
			}
		}
		if d := diff(map[string]units{"list variant": {Write: 3}}, b.take()); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
}

// seconds64 returns a time in epoch seconds, rounded up.
func seconds64(t time.Time) int64 {
	return t.Add(time.Second - 1).Unix()
}
