package dynamostore_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr"
)

// TestWholeSeconds: Publish returns what a reader will find.
func TestWholeSeconds(t *testing.T) {
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		next := f.entry("g1")
		next.GeneratedAt = next.GeneratedAt.Add(700 * time.Millisecond)
		next.Expires = next.Expires.Add(time.Nanosecond)
		next.AssertedAt = next.AssertedAt.Add(time.Millisecond)
		next.PinnedUntil = time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)
		next.Revalidate, next.Stale = 10*time.Millisecond, 11*365*24*time.Hour
		got := f.publish(next)
		want := f.entry("g1")
		want.Version, want.PinnedUntil = got.Version, time.Unix(253402300799, 0)
		want.Revalidate, want.Stale = time.Second, 3650*24*time.Hour
		if d := diff(want, got); d != "" {
			t.Errorf("Publish (-want +got):\n%s", d)
		}
		if d := diff(&got, f.read().Entry); d != "" {
			t.Errorf("Read (-want +got):\n%s", d)
		}
	})
}

// TestHeaderNames: names are stored in lower case, and are one field if they
// differ in nothing else.
func TestHeaderNames(t *testing.T) {
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		next := f.entry("g1")
		next.Header = http.Header{"X-A": {"1", "2"}, "x-a": {"3"}, "ETAG": {"e"}, "bad name": {"v"}, "X-None": {}}
		f.publish(next)
		want := http.Header{"X-A": {"1", "2", "3"}, "Etag": {"e"}, "bad name": {"v"}, "X-None": {}}
		if d := diff(want, f.read().Entry.Header); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
}

// TestUnpublishable: what no row can say is refused and costs neither the lease
// nor the entry.
func TestUnpublishable(t *testing.T) {
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		want := f.publish(f.entry("g1"))
		l := f.acquire()
		for name, spoil := range map[string]func(*isr.Entry){
			"BodyKey":              func(e *isr.Entry) { e.BodyKey = "" },
			"GenerationID":         func(e *isr.Entry) { e.GenerationID = "" },
			"GeneratedAt":          func(e *isr.Entry) { e.GeneratedAt = time.Time{} },
			"status":               func(e *isr.Entry) { e.Status = 0 },
			"length":               func(e *isr.Entry) { e.Length = -1 },
			"purge sequence":       func(e *isr.Entry) { e.PurgeSeq = -1 },
			"ETag":                 func(e *isr.Entry) { e.ETag = "\"caf\xe9\"" },
			"a tag":                func(e *isr.Entry) { e.Tags = []string{"ok", "caf\xe9"} },
			"a header name":        func(e *isr.Entry) { e.Header = http.Header{"X-\xe9": nil} },
			"Key":                  func(e *isr.Entry) { e.Key = "\xff" },
			"maximum allowed size": func(e *isr.Entry) { e.Header = http.Header{"X-Long": {strings.Repeat("x", 500<<10)}} },
		} {
			next := f.entry("g2")
			spoil(&next)
			_, err := f.store.Publish(t.Context(), l, f.read(), next, isr.Publishing{})
			if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), pk) {
				t.Errorf("Publish: %v, want an error that names %s and %s", err, name, pk)
			}
		}
		if err := f.store.Refresh(t.Context(), l); err != nil {
			t.Errorf("Refresh: %v", err)
		}
		if d := diff(&want, f.read().Entry); d != "" {
			t.Errorf("the entry changed:\n%s", d)
		}
	})
}
