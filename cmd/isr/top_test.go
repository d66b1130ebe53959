package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/internal/details"
	"github.com/facetheory/isr/internal/telemetry/live"
)

// frame returns a frame of a busy server.
func frame() topFrame {
	at := time.Date(2026, 11, 23, 17, 0, 0, 0, time.UTC)
	f := topFrame{Overview: admin.Overview{Node: "web-1:1", Version: "v1.2.3", Started: at.Add(-2 * time.Hour), Problems: []string{"the store of the bodies does not answer"}}}
	f.At = at
	f.Minute = live.Totals{
		Counts: live.Counts{Requests: 120, Hit: 100, Stale: 14, Miss: 3, Bypass: 2, Error: 1}, HitRatio: 0.95, Renders: 3,
		RenderMS: live.Quantiles{P50: 80, P95: 1200, P99: 1200}, HitMS: live.Quantiles{P50: 0.08}, RenderOutcomes: map[string]int64{"published": 2, "failed": 1},
		Reasons: map[string]int64{"stale": 14, "miss": 3, "cookie": 2, "a": 1, "b": 1}, StoreCalls: 12, StoreErrors: 2, Purges: 1, Applied: 2,
	}
	f.Hour = f.Minute
	f.Hour.Requests = 7200
	f.Sites = []string{"http://127.0.0.1:8080"}
	f.Details = map[string]details.Detail{"cookie": {Advice: "list it in --ignore-cookie"}}
	f.Seconds = []live.SecondCounts{{At: at.Add(-59 * time.Second), Counts: live.Counts{Requests: 1}}, {At: at, Counts: live.Counts{Requests: 8}}}
	f.Now = admin.Gauges{MemoryBytes: 12 << 20, MemoryLimit: 256 << 20, MemoryEntries: 340, Renders: 1, Queued: 2, LeasesHeld: 1, StoresDown: []string{"bodies"}}
	f.Origins = []admin.Origin{{Name: "site", Breaker: "open", Addresses: []admin.OriginAddress{{URL: "http://127.0.0.1:3000"}}}}
	f.Failing = []live.FailingPage{{Key: "example.com/\x1b[31mx", Since: at.Add(-time.Minute), Count: 3, Reason: "render-failed", Error: "status 500\nand \x07more"}}
	f.Learned = []admin.Section{{Section: "example.com/link/", Reason: "private", Meaning: "the response is private", Advice: "send Cache-Control"}}
	f.Holding = []admin.HeldLease{{Key: "example.com/held", Tenant: "acme", Since: at.Add(-3 * time.Second)}}
	for range 30 {
		f.Slowest = append(f.Slowest, live.PageActivity{Key: "example.com/slow", RenderMean: 900, RenderMax: 1200, RenderLast: 700, Renders: 4})
		f.MostRequested = append(f.MostRequested, live.PageActivity{Key: "example.com/popular/" + strings.Repeat("x", 300), Requests: 60})
	}
	return f
}

func TestTopFrame(t *testing.T) {
	text := frame().text(plainWidth, 0, false)
	for _, want := range []string{
		"isr top  web-1:1  v1.2.3  up 2h0m  17:00:00 UTC",
		"degraded: the store of the bodies does not answer",
		"not cached: example.com/link/  the response is private; send Cache-Control",
		"requests         120, 2.0/s",
		"7200, 2.0/s",
		"hit ratio        95.0%",
		"p50 80ms, p95 1.2s, p99 1.2s",
		"published 2, failed 1",
		"12, 2 failed",
		"1 here, 2 changes by others",
		"stale 14, miss 3, cookie 2, a 1, …",
		"without the cache in the last hour: 2 of 7200 requests (cookie 100%)\n  list it in --ignore-cookie; isr doctor --url http://127.0.0.1:8080/\n",
		"memory 12.0 MiB of 256.0 MiB, 340 pages   renders 1, 2 waiting   leases held 1",
		"the store of the bodies does not answer: its circuit breaker is open",
		"origin site: too many renders have failed in a row",
		"origin site: http://127.0.0.1:3000 is down",
		"requests/s of the last minute ▁" + strings.Repeat(" ", 58) + "█\n",
		"1m0s          3         render-failed   example.com/�[31mx   status 500�and �more",
		"3s               acme example.com/held",
		"900ms         1.2s   700ms   4         example.com/slow",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the frame lacks %q:\n%s", want, text)
		}
	}
	if n := strings.Count(text, "example.com/slow"); n != plainRows {
		t.Errorf("%d rows of the slowest pages", n)
	}
	if strings.ContainsAny(text, "\x1b\x07") {
		t.Error("control characters of a page reach the terminal")
	}
}

// A frame fits its screen, and shows the beginning of each list that has room.
func TestTopFrameFits(t *testing.T) {
	for _, size := range [][2]int{{20, 5}, {80, 24}, {100, 50}, {300, 200}, {1, 1}} {
		text := frame().text(size[0], size[1], false)
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if len(lines) > size[1] {
			t.Errorf("%v: %d lines", size, len(lines))
		}
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > size[0] {
				t.Errorf("%v: a line of %d characters: %q", size, n, line)
			}
		}
	}
	if text := frame().text(100, 50, false); !strings.Contains(text, "MOST REQUESTED") {
		t.Errorf("no room for the last list:\n%s", text)
	}
	if text := frame().text(100, 50, true); !strings.Contains(text, red+"degraded") || !strings.Contains(text, bold+"isr top") {
		t.Errorf("no colors: %q", text)
	}
}

func TestTopFrameOfAnIdleServer(t *testing.T) {
	text := topFrame{}.text(plainWidth, 0, false)
	if !strings.Contains(text, "No page has been requested or rendered in the last hour.") || !strings.Contains(text, "hit ratio        -") {
		t.Errorf("got\n%s", text)
	}
}
