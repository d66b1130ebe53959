package vocabulary_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/facetheory/isr/internal/vocabulary"
	"github.com/facetheory/isr/store"
)

// A field that the vocabulary lacks would be tested by no vector and no worker.
func TestEntriesConvertCompletely(t *testing.T) {
	at := time.Unix(1_800_000_000, 0).UTC()
	want := store.Entry{
		BodyKey: "b", GeneratedAt: at.Add(7 * time.Millisecond), Revalidate: time.Minute, ETag: `"e"`, Expires: at.Add(time.Second),
		Foreign: true, Version: 1, GenerationID: "g", Key: "k", Route: "r", Status: http.StatusOK,
		Header: http.Header{"X-Many": {"one", "três"}, "X-Bytes": {"\xff"}}, SHA256: "s", Length: 2, Tags: []string{"t"},
		Stale: time.Hour, PurgeSeq: 3, Build: 5, PinnedUntil: at.Add(2 * time.Second), RenderTime: 4 * time.Millisecond, InitialAge: 6 * time.Second,
		AssertedAt: at.Add(3 * time.Second), Withdrawn: true, Peer: netip.MustParseAddrPort("10.0.0.5:7946"),
	}
	for field, value := range reflect.ValueOf(want).Fields() {
		if value.IsZero() {
			t.Errorf("store.Entry has %s, which this test does not set", field.Name)
		}
	}
	comparable := cmpopts.EquateComparable(netip.AddrPort{})
	if diff := cmp.Diff(want, throughJSON(t, &want), comparable); diff != "" {
		t.Errorf("the entry changed in its JSON (-want +got):\n%s", diff)
	}
	var none store.Entry
	if diff := cmp.Diff(none, throughJSON(t, &none), comparable); diff != "" {
		t.Errorf("the zero entry changed in its JSON (-want +got):\n%s", diff)
	}
}

func throughJSON(t *testing.T, e *store.Entry) store.Entry {
	t.Helper()
	text, err := json.Marshal(vocabulary.EntryOf(e))
	if err != nil {
		t.Fatal(err)
	}
	var decoded vocabulary.Entry
	if err := json.Unmarshal(text, &decoded); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return decoded.ISR()
}

func TestErrorName(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{errors.New("unknown"), ""},
		{fmt.Errorf("publish: %w", store.ErrMoved), "Moved"},
		{fmt.Errorf("acquire: %w", &store.HeldError{}), "LeaseHeld"},
		{errors.Join(store.ErrInvalidInput, store.ErrUnknownOutcome), "UnknownOutcome"},
	} {
		if got := vocabulary.ErrorName(c.err); got != c.want {
			t.Errorf("%v is named %q, want %q", c.err, got, c.want)
		}
	}
}
