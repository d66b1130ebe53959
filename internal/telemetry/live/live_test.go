package live

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/telemetry"
	"github.com/facetheory/isr/store"
)

func hitOf(text string, took time.Duration) *telemetry.Exchange {
	return &telemetry.Exchange{
		Report: isr.Report{Route: "site", Key: store.Key{Text: text}, Hit: true},
		Start:  time.Now().Add(-took), Duration: took, Status: 200, Bytes: 100,
	}
}

func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		report  isr.Report
		status  int
		aborted bool
		want    outcome
		reason  string
	}{
		{isr.Report{Hit: true}, 200, false, hit, ""},
		{isr.Report{Hit: true, Detail: "negative"}, 404, false, hit, "negative"},
		{isr.Report{Hit: true, Detail: "pinned"}, 200, false, hit, "pinned"},
		{isr.Report{Hit: true, Detail: "stale"}, 200, false, stale, "stale"},
		{isr.Report{Hit: true, Detail: "cut-off"}, 200, false, stale, "cut-off"},
		{isr.Report{Forward: "stale", Detail: "stale-if-error"}, 200, false, stale, "stale-if-error"},
		{isr.Report{Forward: "miss"}, 200, false, miss, "miss"},
		{isr.Report{Forward: "stale", Detail: "min-uses"}, 200, false, miss, "min-uses"},
		{isr.Report{Forward: "bypass", Detail: "cookie"}, 200, false, bypass, "cookie"},
		{isr.Report{Forward: "method"}, 200, false, bypass, "method"},
		{isr.Report{Forward: "request"}, 200, false, bypass, "request"},
		{isr.Report{}, 421, false, bypass, "unrouted"},
		{isr.Report{Forward: "miss", Detail: "render-failed"}, 502, false, failed, "render-failed"},
		{isr.Report{}, 503, false, failed, "error"},
		{isr.Report{Forward: "bypass"}, 200, true, failed, "aborted"},
	} {
		got, reason := classify(&telemetry.Exchange{Report: c.report, Status: c.status, Aborted: c.aborted})
		if got != c.want || reason != c.reason {
			t.Errorf("%+v with %d: %d %q; want %d %q", c.report, c.status, got, reason, c.want, c.reason)
		}
	}
}

func TestHistogram(t *testing.T) {
	for d := time.Microsecond; d < 2*time.Minute; d += d/7 + 1 {
		b := bucketOf(d)
		if upper(b) <= d {
			t.Fatalf("%s is in the bucket %d, which ends at %s", d, b, upper(b))
		}
		if d >= 8192 && float64(upper(b)) > float64(d)*1.25+1 {
			t.Fatalf("%s is in the bucket that ends at %s: more than 25 %% off", d, upper(b))
		}
	}
	if bucketOf(math.MaxInt64) != buckets-1 || bucketOf(-1) != 0 {
		t.Error("durations beyond the buckets are not in the last and first")
	}
	var h histogram
	if h.quantiles() != (Quantiles{}) || h.mean() != 0 {
		t.Errorf("empty: %+v", h.quantiles())
	}
	for i := range 100 {
		h.add(time.Duration(i+1) * time.Millisecond)
	}
	q := h.quantiles()
	if q.P50 < 50 || q.P50 > 64 || q.P95 < 95 || q.P95 > 100 || q.P99 < 99 || q.P99 > 100 || q.Max != 100 {
		t.Errorf("of 1 to 100 ms: %+v", q)
	}
}

// An hour of a request a second is counted exactly, and forgotten after that.
func TestHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New()
		for range 2 * 3600 {
			m.Done(hitOf("example.com/", time.Millisecond))
			time.Sleep(time.Second)
		}
		s := m.Snapshot(time.Now())
		if h := s.Hour; h.Requests < 3540 || h.Requests > 3600 || h.Hit != h.Requests || h.HitRatio != 1 || h.Bytes != 100*h.Requests {
			t.Errorf("hour: %+v", h)
		}
		if s.Hour.HitMS.P50 != 1 || s.Hour.HitMS.Max != 1 {
			t.Errorf("latency: %+v", s.Hour.HitMS)
		}
		if s.Minute.Requests != 59 || len(s.Seconds) != 59 || len(s.Minutes) < 59 {
			t.Errorf("%d requests in the last minute, %d seconds, %d minutes", s.Minute.Requests, len(s.Seconds), len(s.Minutes))
		}
		for _, one := range s.Minutes[:58] {
			if one.Requests != 60 {
				t.Errorf("%s has %d requests", one.At, one.Requests)
			}
		}
		if n := s.MostRequested[0].Requests; n < 1800 || n > 3600 {
			t.Errorf("the only page has %d requests", n)
		}
		time.Sleep(61 * time.Minute)
		if s := m.Snapshot(time.Now()); s.Hour.Requests != 0 || len(s.Minutes) != 0 || len(s.MostRequested) != 0 {
			t.Errorf("an idle hour: %+v", s)
		}
	})
}

func render(m *Monitor, k string, took time.Duration, res isr.Result) {
	_, end := m.Begin(context.Background(), isr.Operation{Kind: isr.OperationRender, Route: "site", Key: store.Key{Text: k}})
	time.Sleep(took)
	end(res)
}

func TestRenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New()
		render(m, "example.com/a", 2*time.Second, isr.Result{Outcome: "published"})
		render(m, "example.com/a", 4*time.Second, isr.Result{Outcome: "unchanged"})
		render(m, "example.com/b", time.Second, isr.Result{Outcome: "failed", Err: errors.New("the origin\nis " + strings.Repeat("x", 400))})
		render(m, "example.com/b", time.Second, isr.Result{Outcome: "failed", Reason: "timeout"})
		render(m, "example.com/c", time.Second, isr.Result{Outcome: "rejected", Err: errors.New("no </html>")})
		_, end := m.Begin(t.Context(), isr.Operation{Kind: isr.OperationTable, Name: "read"})
		end(isr.Result{Outcome: "error"})
		m.Note(isr.Event{Kind: isr.EventPurge, Reason: "hard"})
		m.Note(isr.Event{Kind: isr.EventApplied})
		s := m.Snapshot(time.Now())
		h := s.Hour
		if h.Renders != 5 || h.RenderSeconds != 9 || h.RenderOutcomes["failed"] != 2 || h.StoreCalls != 1 || h.StoreErrors != 1 || h.Purges != 1 || h.Applied != 1 {
			t.Errorf("hour: %+v", h)
		}
		if len(s.Slowest) != 3 || s.Slowest[0].Key != "example.com/a" || s.Slowest[0].RenderMean != 3000 || s.Slowest[0].RenderMax != 4000 || s.Slowest[0].RenderLast != 4000 || s.Slowest[0].Renders != 2 {
			t.Errorf("slowest: %+v", s.Slowest)
		}
		if len(s.Failing) != 2 || s.Failing[0].Key != "example.com/c" || s.Failing[1].Count != 2 || s.Failing[1].LastAt.Sub(s.Failing[1].Since) != time.Second {
			t.Errorf("failing: %+v", s.Failing)
		}
		render(m, "example.com/b", time.Second, isr.Result{Outcome: "published"})
		var kinds []string
		for _, one := range m.Happenings(0) {
			kinds = append(kinds, one.Kind)
			if len(one.Text) > 400 || strings.ContainsRune(one.Text, '\n') {
				t.Errorf("text: %q", one.Text)
			}
		}
		if got := strings.Join(kinds, " "); got != "failing failing quarantine purge applied recovered" {
			t.Errorf("happenings: %s", got)
		}
		if rest := m.Happenings(5); len(rest) != 1 || rest[0].ID != 6 {
			t.Errorf("after 5: %+v", rest)
		}
		if _, failing := m.FailingPage(store.Key{Text: "example.com/b"}); failing || m.PageActivity(time.Now(), store.Key{Text: "example.com/b"}).Renders != 3 {
			t.Error("a page that recovered still fails, or its renders are gone")
		}
		time.Sleep(troubleFor + time.Second)
		if all := m.Failing(time.Now()); len(all) != 0 {
			t.Errorf("an hour later: %+v", all)
		}
	})
}

// Any number of pages and errors takes a bounded amount of memory, and the most requested ones
// are found among them.
func TestBounds(t *testing.T) {
	m := New()
	for i := range 20 * topSize {
		for _, k := range []string{fmt.Sprint("example.com/", i), fmt.Sprint("example.com/popular/", i%10)} {
			e := hitOf(k, time.Microsecond)
			m.requested.addLocked(time.Now(), e.Key, e.Route, 1)
		}
		if i > maxTroubles+100 {
			continue
		}
		m.troubles.renderEnds(isr.Operation{Key: store.Key{Text: fmt.Sprint("example.com/", i)}}, isr.Result{Outcome: "failed"}, time.Now())
		m.Happen(Happening{Kind: "change"})
		m.work.do(time.Now(), func(p *period) { count(p.reasons, fmt.Sprint("reason", i), 1) })
	}
	s := m.Snapshot(time.Now())
	for _, p := range s.MostRequested[:10] {
		if !strings.HasPrefix(p.Key, "example.com/popular/") || p.Requests < 2000 || p.Requests-p.RequestsError > 2000 {
			t.Errorf("among the most requested: %+v", p)
		}
	}
	if n := len(m.requested.current.heap); n != topSize || len(m.requested.current.byKey) != topSize {
		t.Errorf("the list has %d pages", n)
	}
	if len(m.troubles.failing) != maxTroubles || len(s.Failing) != listedFailing || len(m.Happenings(0)) != maxHappenings {
		t.Errorf("%d failing pages, %d listed, %d happenings", len(m.troubles.failing), len(s.Failing), len(m.Happenings(0)))
	}
	if n := len(s.Hour.Reasons); n > 2*maxReasons+1 || s.Hour.Reasons["other"] == 0 {
		t.Errorf("%d reasons", n)
	}
}

// Requests that are counted concurrently, while snapshots are taken, are all counted.
func TestConcurrentRequests(t *testing.T) {
	m := New()
	const each = 20_000
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range each {
				m.Done(hitOf("example.com/", time.Duration(i)))
			}
		})
	}
	for range 20 {
		m.Snapshot(time.Now())
	}
	all.Wait()
	if got := m.Snapshot(time.Now()).Hour; got.Hit != 4*each || got.Requests != 4*each {
		t.Errorf("%d of %d are counted", got.Hit, 4*each)
	}
}

func TestHitsDoNotAllocate(t *testing.T) {
	m := New()
	e := hitOf("example.com/", 50*time.Microsecond)
	m.Done(e)
	if n := testing.AllocsPerRun(1000, func() { m.Done(e) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkHit(b *testing.B) {
	m := New()
	e := hitOf("example.com/", 50*time.Microsecond)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m.Done(e)
		}
	})
}
