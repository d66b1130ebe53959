package dynamostore_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/store"
)

// TestWholeSeconds: Publish returns what a reader will find, with the time of the render in
// whole milliseconds.
func TestWholeSeconds(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		next := f.entry("g1")
		next.GeneratedAt = next.GeneratedAt.Add(700*time.Millisecond + 999*time.Microsecond)
		next.Expires = next.Expires.Add(time.Nanosecond)
		next.AssertedAt = next.AssertedAt.Add(time.Millisecond)
		next.PinnedUntil = store.Forever().Add(999 * time.Millisecond)
		next.Revalidate, next.Stale = 10*time.Millisecond, 11*365*24*time.Hour
		got := f.publish(next)
		want := f.entry("g1")
		want.GeneratedAt = want.GeneratedAt.Add(700 * time.Millisecond)
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

// TestHeaderNames: names are stored in lower case, and names that differ only in case
// are one field.
func TestHeaderNames(t *testing.T) {
	t.Parallel()
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

// milliseconds returns t with its epoch milliseconds taken for seconds.
func milliseconds(t time.Time) time.Time { return time.Unix(t.UnixMilli(), 0) }

// TestInvalidCalls: invalid input is refused before any I/O, with a sentinel error.
func TestInvalidCalls(t *testing.T) {
	t.Parallel()
	f := newFixture(t, localDynamo(t))
	ctx := t.Context()
	acquire := func(pk string, d time.Duration, c *store.Claim) error {
		_, err := f.store.Acquire(ctx, pk, d, c)
		return err
	}
	for name, tt := range map[string]struct {
		err, want error
	}{
		"no duration":         {acquire(pk, 0, nil), store.ErrInvalidInput},
		"a negative one":      {acquire(pk, -time.Second, nil), store.ErrInvalidInput},
		"kept for less":       {acquire(pk, time.Second, &store.Claim{Key: "k", Hash: "h", Keep: -time.Second}), store.ErrInvalidInput},
		"no partition":        {acquire("", time.Second, nil), store.ErrInvalidKey},
		"a long partition":    {acquire(strings.Repeat("x", 2049), time.Second, nil), store.ErrInvalidKey},
		"not text":            {acquire("CACHE#\xff", time.Second, nil), store.ErrInvalidKey},
		"a claim of none":     {acquire("", time.Second, &store.Claim{Key: "k", Hash: "h"}), store.ErrInvalidKey},
		"read of none":        {second(f.store.Read(ctx, "")), store.ErrInvalidKey},
		"versions of none":    {second(f.store.Versions(ctx, "")), store.ErrInvalidKey},
		"body keys of none":   {second(f.store.BodyKeys(ctx, "")), store.ErrInvalidKey},
		"requests of none":    {third(f.store.RequestRecord(ctx, "", "k")), store.ErrInvalidKey},
		"a tenant with a '#'": {second(f.store.Pin(ctx, f.published(), store.Assertion{Key: store.Key{Tenant: "a#b", Text: "h/"}})), store.ErrInvalidKey},
	} {
		if !errors.Is(tt.err, tt.want) {
			t.Errorf("%s: %v, want %v", name, tt.err, tt.want)
		}
	}
	// Last, because it moves the clock: leases of the year 58,000 would never expire.
	good := f.clock.Now()
	f.clock.Set(milliseconds(good))
	if err := acquire(pk, time.Second, nil); !errors.Is(err, store.ErrInvalidInput) {
		t.Errorf("a clock in milliseconds: %v, want ErrInvalidInput", err)
	}
	f.clock.Set(good)
	longest := strings.Repeat("x", 2048)
	if err := acquire(longest, time.Second, nil); err != nil {
		t.Errorf("a partition key of 2,048 bytes: %v", err)
	}
}

func second[A any](_ A, err error) error { return err }

func third[A, B any](_ A, _ B, err error) error { return err }

// published returns the record of a page that has an entry.
func (f *fixture) published() store.Record {
	f.t.Helper()
	f.publish(f.entry("g1"))
	return f.read()
}

// TestInvalidEntries: an entry that a row cannot store is refused, and changes
// neither the lease nor the current entry.
func TestInvalidEntries(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		want := f.publish(f.entry("g1"))
		l := f.acquire()
		for name, spoil := range map[string]func(*store.Entry){
			"BodyKey":                      func(e *store.Entry) { e.BodyKey = "" },
			"GenerationID":                 func(e *store.Entry) { e.GenerationID = "" },
			"GeneratedAt":                  func(e *store.Entry) { e.GeneratedAt = time.Time{} },
			"status":                       func(e *store.Entry) { e.Status = 0 },
			"length":                       func(e *store.Entry) { e.Length = -1 },
			"freshness window":             func(e *store.Entry) { e.Revalidate = -time.Second },
			"(got 1m0s, -1s, 20ms and 7s)": func(e *store.Entry) { e.Stale = -time.Second },
			"1h0m0s, -1s and 7s)":          func(e *store.Entry) { e.RenderTime = -time.Second },
			"20ms and -1s)":                func(e *store.Entry) { e.InitialAge = -time.Second },
			"GeneratedAt must be":          func(e *store.Entry) { e.GeneratedAt = milliseconds(e.GeneratedAt) },
			"Expires":                      func(e *store.Entry) { e.Expires = milliseconds(e.Expires) },
			"PinnedUntil":                  func(e *store.Entry) { e.PinnedUntil = milliseconds(e.PinnedUntil) },
			"AssertedAt":                   func(e *store.Entry) { e.AssertedAt = time.Unix(-1, 0) },
			"purge sequence":               func(e *store.Entry) { e.PurgeSeq = -1 },
			"ETag":                         func(e *store.Entry) { e.ETag = "\"caf\xe9\"" },
			"a tag":                        func(e *store.Entry) { e.Tags = []string{"ok", "caf\xe9"} },
			"a header name":                func(e *store.Entry) { e.Header = http.Header{"X-\xe9": nil} },
			"Key":                          func(e *store.Entry) { e.Key = "\xff" },
			"maximum allowed size":         func(e *store.Entry) { e.Header = http.Header{"X-Long": {strings.Repeat("x", 500<<10)}} },
		} {
			next := f.entry("g2")
			spoil(&next)
			_, err := f.store.Publish(t.Context(), l, f.read(), next, store.PublishOptions{})
			if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), pk) {
				t.Errorf("Publish: %v, want an error that names %s and %s", err, name, pk)
			}
			// Only DynamoDB checks the size.
			if !errors.Is(err, store.ErrInvalidInput) && name != "maximum allowed size" {
				t.Errorf("%s: %v, want ErrInvalidInput", name, err)
			}
		}
		how := store.PublishOptions{History: true, Superseded: milliseconds(f.clock.Now())}
		if _, err := f.store.Publish(t.Context(), l, f.read(), f.entry("g2"), how); !errors.Is(err, store.ErrInvalidInput) {
			t.Errorf("Publish with Superseded in milliseconds: %v, want ErrInvalidInput", err)
		}
		if err := f.store.Refresh(t.Context(), l); err != nil {
			t.Errorf("Refresh: %v", err)
		}
		if d := diff(&want, f.read().Entry); d != "" {
			t.Errorf("the entry changed:\n%s", d)
		}
	})
}
