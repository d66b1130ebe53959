package dynamostore_test

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/store"
)

const logKey = "LOG#00000000000000000007"

// TestLogRows: rows of later versions are read as far as this version knows them.
func TestLogRows(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		page := func(more attrs) attrs {
			m := attrs{"kind": str("reload"), "key": str("example.com/")}
			for name, value := range more {
				m[name] = value
			}
			return m
		}
		for name, test := range map[string]struct {
			row  attrs
			want []store.Key
		}{
			"ours":          {attrs{"targets": list(obj(page(nil))), "id": str("x"), "ttl": num("4000000000")}, []store.Key{{Text: "example.com/"}}},
			"tenant":        {attrs{"targets": list(obj(page(attrs{"tenant": str("t1")})))}, []store.Key{{Tenant: "t1", Text: "example.com/"}}},
			"nothing":       {attrs{"targets": list()}, nil},
			"more to it":    {attrs{"targets": list(obj(page(attrs{"x": num("1")}))), "x": yes()}, []store.Key{{Text: "example.com/"}}},
			"unknown kinds": {attrs{"targets": list(obj(attrs{"kind": str("zone"), "value": str("news")}), obj(page(nil)), obj(attrs{"kind": str("audio")}))}, []store.Key{{Text: "example.com/"}}},
		} {
			f.raw.put("PURGE", "SEQ", attrs{"seq": num("7")})
			f.raw.put("PURGE", logKey, test.row)
			_, got, err := f.store.Changes(t.Context(), 6)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if d := diff([]store.Change{{Seq: 7, Reload: test.want}}, got); d != "" {
				t.Errorf("%s (-want +got):\n%s", name, d)
			}
		}
		if _, got, err := f.store.Changes(t.Context(), 7); err != nil || len(got) != 0 {
			t.Errorf("Changes after the last: %+v, %v", got, err)
		}
		f.raw.put("PURGE", "SEQ", attrs{"seq": num("1")})
		f.raw.put("PURGE", "LOG#00000000000000000001", attrs{"targets": list()})
		if _, got, err := f.store.Changes(t.Context(), -1); err != nil || len(got) != 1 {
			t.Errorf("Changes after less than nothing: %+v, %v", got, err)
		}
		if _, got, err := f.store.Changes(t.Context(), math.MaxInt64-1); err != nil || len(got) != 0 {
			t.Errorf("Changes after more than there can be: %+v, %v", got, err)
		}
	})
}

// TestMalformedLogRows: a malformed row is reported in its place, because nodes may
// have to act on it.
func TestMalformedLogRows(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		target := func(m attrs) attrs { return attrs{"targets": list(obj(m))} }
		f.raw.put("PURGE", "SEQ", attrs{"seq": num("80")})
		f.raw.put("PURGE", "LOG#00000000000000000008", target(attrs{"kind": str("reload"), "key": str("a")}))
		// Sort keys that are not sequences, outside the range of sequences.
		f.raw.put("PURGE", "LOG#8", target(nil))
		f.raw.put("PURGE", "LOG#99999999999999999999", target(nil))
		for name, test := range map[string]struct {
			sk        string
			row       attrs
			attribute string
		}{
			"no targets":        {logKey, attrs{}, "targets"},
			"targets of text":   {logKey, attrs{"targets": str("all")}, "targets"},
			"targets of texts":  {logKey, attrs{"targets": list(str("all"))}, "targets[0]"},
			"no kind":           {logKey, target(attrs{"key": str("a")}), "targets"},
			"no key":            {logKey, target(attrs{"kind": str("reload")}), "targets"},
			"kind of number":    {logKey, target(attrs{"kind": num("1")}), "targets[0].kind"},
			"key of number":     {logKey, target(attrs{"kind": str("reload"), "key": num("1")}), "targets[0].key"},
			"tenant of a list":  {logKey, target(attrs{"kind": str("reload"), "key": str("a"), "tenant": list()}), "targets[0].tenant"},
			"no number":         {logKey + "x", target(nil), "sk"},
			"too long a number": {logKey + "0", target(nil), "sk"},
		} {
			f.raw.put("PURGE", test.sk, test.row)
			_, changes, err := f.store.Changes(t.Context(), 6)
			if err != nil || len(changes) != 2 {
				t.Fatalf("%s: %d changes, %v, want two", name, len(changes), err)
			}
			malformed, ok := errors.AsType[*dynamostore.MalformedError](changes[0].Malformed)
			if !ok || malformed.PK != "PURGE" || malformed.SK != test.sk || malformed.Attribute != test.attribute || changes[0].Reload != nil {
				t.Errorf("%s: %+v; want a MalformedError of %s in %s", name, changes[0], test.attribute, test.sk)
			}
			if d := diff(store.Change{Seq: 8, Reload: []store.Key{{Text: "a"}}}, changes[1]); d != "" {
				t.Errorf("%s: what follows (-want +got):\n%s", name, d)
			}
			f.raw.set("PURGE", test.sk, nil)
		}
	})
}

// TestRollbackWithoutSequence: a rollback fails without effect if the sequence cannot
// be read.
func TestRollbackWithoutSequence(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		f.keep("g1")
		second := f.keep("g2")
		for _, seq := range []attrs{{}, {"seq": str("1")}, {"seq": num("-1")}} {
			f.raw.put("PURGE", "SEQ", seq)
			if _, err := f.store.Rollback(t.Context(), f.read(), "g1", f.assertion()); !isMalformed(err) {
				t.Errorf("Rollback: %v, want a MalformedError", err)
			}
		}
		if d := diff(&second, f.read().Entry); d != "" {
			t.Errorf("the page changed:\n%s", d)
		}
		f.raw.put("PURGE", "SEQ", attrs{"seq": num("7.5")}) // by a client in another language
		f.rollback("g1", f.assertion())
		if d := diff(num("8"), f.raw.get("PURGE", "SEQ")["seq"]); d != "" {
			t.Errorf("seq (-want +got):\n%s", d)
		}
	})
}

// TestChangesPagination: a read returns a bounded number of rows, and the next read
// continues after them.
func TestChangesPagination(t *testing.T) {
	t.Parallel()
	f := newFixture(t, localDynamo(t))
	const rows = 2100
	f.raw.put("PURGE", "SEQ", attrs{"seq": num(fmt.Sprint(rows))})
	for seq := range rows {
		f.raw.put("PURGE", fmt.Sprintf("LOG#%020d", seq+1), attrs{"targets": list()})
	}
	seen := int64(0)
	for _, want := range []int{1000, 1000, 100, 0} {
		_, changes, err := f.store.Changes(t.Context(), seen)
		if err != nil || len(changes) != want {
			t.Fatalf("Changes after %d: %d, %v; want %d", seen, len(changes), err, want)
		}
		for _, change := range changes {
			if seen++; change.Seq != seen {
				t.Fatalf("sequence %d follows %d", change.Seq, seen-1)
			}
		}
	}
}
