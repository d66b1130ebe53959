package isrtest

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/store"
)

func testPublishFirst(t *testing.T, f *fleet) {
	l := f.acquire(f.a, testPK)
	next := f.entry("1")
	got, err := f.a.Publish(t.Context(), l, f.read(f.a, testPK), next, store.PublishOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Version <= 0 {
		t.Errorf("published version %d, want a positive one", got.Version)
	}
	next.Version = got.Version
	if diff := diffEntries(next, got); diff != "" {
		t.Errorf("Publish returned a different entry (-want +got):\n%s", diff)
	}
	f.holds(testPK, next)
	if lock := f.read(f.b, testPK).Lock; lock != nil {
		t.Errorf("the lease is still held after a publish: %+v", lock)
	}
	f.acquire(f.b, testPK)
}

func testPublishAgain(t *testing.T, f *fleet) {
	var last store.Entry
	for i, store := range []store.MetaStore{f.a, f.b, f.b, f.a} {
		got := f.publish(store, testPK, f.entry(string(rune('1'+i))))
		if got.Version <= last.Version {
			t.Errorf("version %d follows %d, want a greater one", last.Version, got.Version)
		}
		f.holds(testPK, got)
		last = got
		f.clock.Advance(time.Minute)
	}
	f.publish(f.a, testPK+"0", f.entry("other"))
	f.holds(testPK, last)
}

// testPublishReplacesAll: a generation inherits nothing from the one before.
func testPublishReplacesAll(_ *testing.T, f *fleet) {
	rich := f.entry("1")
	rich.PinnedUntil = f.clock.Now().Add(-time.Hour).Truncate(time.Second) // expired, so that it can be replaced
	rich.AssertedAt = f.clock.Now().Truncate(time.Second)
	f.publish(f.a, testPK, rich)
	poor := store.Entry{
		BodyKey: "bodies/5f1c/2", GeneratedAt: rich.GeneratedAt, GenerationID: "2", Status: http.StatusNoContent,
	}
	poor.Version = f.publish(f.b, testPK, poor).Version
	f.holds(testPK, poor)
}

func testPublishRoundTrip(t *testing.T, f *fleet) {
	for name, change := range map[string]func(*store.Entry){
		"ordinary":        func(*store.Entry) {},
		"weak etag":       func(e *store.Entry) { e.ETag = `W/"ü` + "\u2028" + `"` },
		"no etag":         func(e *store.Entry) { e.ETag = "" },
		"not found":       func(e *store.Entry) { e.Status = http.StatusNotFound },
		"empty body":      func(e *store.Entry) { e.Length, e.SHA256 = 0, "" },
		"large body":      func(e *store.Entry) { e.Length = 1 << 40 },
		"never collected": func(e *store.Entry) { e.Expires = time.Time{} },
		"no windows":      func(e *store.Entry) { e.Revalidate, e.Stale = 0, 0 },
		"long windows":    func(e *store.Entry) { e.Revalidate, e.Stale = 3650*24*time.Hour, 3650*24*time.Hour },
		"late sequence":   func(e *store.Entry) { e.PurgeSeq = 1 << 53 },
		"no sequence":     func(e *store.Entry) { e.PurgeSeq = 0 },
		"no header":       func(e *store.Entry) { e.Header = nil },
		"odd headers": func(e *store.Entry) {
			e.Header = http.Header{
				"Link": {"</a>; rel=preload", "</b>; rel=preload"}, "X_under.score~": {"1"}, "X-Empty": {""},
				"Content-Disposition": {`attachment; filename="käse.html"`}, "X-Latin-1": {"caf\xe9", "naïve"},
				"X-Spaces": {"  a\tb  "}, "Content-Md5": {strings.Repeat("x", 8000)},
			}
		},
		"no tags":      func(e *store.Entry) { e.Tags = nil },
		"odd tags":     func(e *store.Entry) { e.Tags = []string{"b", "a", "b", "日本", "with space", ""} },
		"no names":     func(e *store.Entry) { e.Route, e.Key = "", "" },
		"odd key":      func(e *store.Entry) { e.Key = "example.com/ü%20?q=%F0%9F%98%80#accept=a,b" },
		"pinned":       func(e *store.Entry) { e.PinnedUntil = e.GeneratedAt.Add(time.Hour).Truncate(time.Second) },
		"pinned ever":  func(e *store.Entry) { e.PinnedUntil = time.Unix(253402300799, 0) },
		"peer":         func(e *store.Entry) { e.Peer = netip.MustParseAddrPort("[fd00::5]:7946") },
		"render time":  func(e *store.Entry) { e.RenderTime = 1234 * time.Millisecond },
		"aged":         func(e *store.Entry) { e.InitialAge = 42 * time.Second },
		"withdrawn":    func(e *store.Entry) { e.Withdrawn = true },
		"rolled back":  func(e *store.Entry) { e.AssertedAt = e.GeneratedAt.Add(time.Hour).Truncate(time.Second) },
		"whole second": func(e *store.Entry) { e.GeneratedAt = e.GeneratedAt.Truncate(time.Second) },
		"ahead of now": func(e *store.Entry) { e.GeneratedAt = e.GeneratedAt.Add(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			f := &fleet{t: t, open: f.open, clock: f.clock, a: f.a, b: f.b}
			pk := "CACHE#" + name
			want := f.entry("1")
			change(&want)
			got := f.publish(f.a, pk, want)
			want.Version = got.Version
			if diff := diffEntries(want, got); diff != "" {
				t.Errorf("Publish returned a different entry (-want +got):\n%s", diff)
			}
			f.holds(pk, want)
		})
	}
}

// testPublishKeepsNoReference: the store copies the entry; later changes by the
// caller have no effect.
func testPublishKeepsNoReference(_ *testing.T, f *fleet) {
	next := f.entry("1")
	want := f.entry("1")
	want.Version = f.publish(f.a, testPK, next).Version
	next.Header.Set("X-Generation", "changed")
	next.Tags[0] = "changed"
	f.holds(testPK, want)
	read := f.read(f.a, testPK).Entry
	read.Header.Set("X-Generation", "changed")
	read.Tags[0] = "changed"
	f.holds(testPK, want)
}

// testPublishByStaleHolder: a holder whose lease expired is refused, whatever
// happened since.
func testPublishByStaleHolder(t *testing.T, f *fleet) {
	first := f.publish(f.b, testPK, f.entry("1"))

	l := f.acquire(f.a, testPK)
	read := f.read(f.a, testPK)
	f.clock.Set(f.held(f.b, testPK).ExpiresAt)
	publish := func() error {
		_, err := f.a.Publish(t.Context(), l, read, f.entry("late"), store.PublishOptions{})
		return err
	}
	if err := publish(); !errors.Is(err, store.ErrLeaseLost) {
		t.Fatalf("Publish after expiry: %v, want ErrLeaseLost", err)
	}
	f.holds(testPK, first)

	// The same with a lease whose loss this process has not noticed.
	f.release(f.a, f.acquire(f.a, testPK))
	l = f.acquire(f.a, testPK)
	f.clock.Set(f.held(f.b, testPK).ExpiresAt)
	stolen := f.acquire(f.b, testPK)
	if err := publish(); !errors.Is(err, store.ErrLeaseLost) {
		t.Fatalf("Publish after the lease was taken: %v, want ErrLeaseLost", err)
	}
	f.holds(testPK, first)
	f.refresh(f.b, stolen)
	f.release(f.b, stolen)

	l = f.acquire(f.a, testPK)
	f.clock.Set(f.held(f.b, testPK).ExpiresAt)
	second := f.publish(f.b, testPK, f.entry("2"))
	if err := publish(); !errors.Is(err, store.ErrLeaseLost) {
		t.Fatalf("Publish after the next holder's: %v, want ErrLeaseLost", err)
	}
	f.holds(testPK, second)
}

// testPublishTwice: a publish ends the lease.
func testPublishTwice(t *testing.T, f *fleet) {
	l := f.acquire(f.a, testPK)
	first, err := f.a.Publish(t.Context(), l, f.read(f.a, testPK), f.entry("1"), store.PublishOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.lost(f.a, l)
	f.holds(testPK, first)
	f.release(f.a, l)
	f.backOff(f.a, l, time.Hour)
	f.acquire(f.b, testPK)
}

// testPublishMoved: the lease is held, but the entry that was read has been replaced.
func testPublishMoved(t *testing.T, f *fleet) {
	f.publish(f.a, testPK, f.entry("1"))
	old := f.read(f.a, testPK)
	second := f.publish(f.b, testPK, f.entry("2"))

	l := f.acquire(f.a, testPK)
	_, err := f.a.Publish(t.Context(), l, old, f.entry("3"), store.PublishOptions{})
	if !errors.Is(err, store.ErrMoved) || errors.Is(err, store.ErrLeaseLost) {
		t.Fatalf("Publish over another's: %v, want ErrMoved", err)
	}
	f.holds(testPK, second)
	f.refresh(f.a, l) // a refused publish keeps the lease
	third, err := f.a.Publish(t.Context(), l, f.read(f.a, testPK), f.entry("3"), store.PublishOptions{})
	if err != nil {
		t.Fatalf("Publish after reading again: %v", err)
	}
	f.holds(testPK, third)
}

func testPublishMovedFromNothing(t *testing.T, f *fleet) {
	nothing := f.read(f.a, testPK)
	first := f.publish(f.b, testPK, f.entry("1"))
	l := f.acquire(f.a, testPK)
	if _, err := f.a.Publish(t.Context(), l, nothing, f.entry("2"), store.PublishOptions{}); !errors.Is(err, store.ErrMoved) {
		t.Fatalf("Publish over an entry after reading none: %v, want ErrMoved", err)
	}
	f.holds(testPK, first)
}

// testPublishWithoutRead: the record of another page is not accepted as a fence.
func testPublishWithoutRead(t *testing.T, f *fleet) {
	first := f.publish(f.a, testPK, f.entry("1"))
	l := f.acquire(f.a, testPK)
	for name, record := range map[string]store.Record{
		"no record":             {},
		"another page's record": f.read(f.a, testPK+"0"),
	} {
		if _, err := f.a.Publish(t.Context(), l, record, f.entry("2"), store.PublishOptions{}); err == nil {
			t.Errorf("Publish with %s: no error", name)
		}
	}
	f.holds(testPK, first)
	f.refresh(f.a, l)
}
