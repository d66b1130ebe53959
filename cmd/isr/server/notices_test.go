package server

import (
	"testing"

	"github.com/facetheory/isr/internal/notices"
	"github.com/facetheory/isr/internal/telemetry/live"
)

// TestFailingNotices: failing pages are told by route; a page that has failed once is not told, and one in quarantine is.
func TestFailingNotices(t *testing.T) {
	got := failingNotices([]live.FailingPage{
		{Key: "example.com/shop/2", Route: "/shop/*", Count: 3, Outcome: "failed", Error: "status 500"},
		{Key: "example.com/once", Route: "/*", Count: 1, Outcome: "failed", Error: "status 502"},
		{Key: "example.com/shop/1", Route: "/shop/*", Count: 2, Outcome: "failed", Error: "status 503"},
		{Key: "example.com/blog", Route: "/blog", Count: 1, Outcome: "rejected", Error: "too short"},
		{Key: "example.com/other", Count: 9, Outcome: "failed", Error: "time"},
	})
	want := []notices.Problem{
		{Kind: notices.FailingPages, Text: "the page example.com/other fails: time", Link: "/"},
		{Kind: notices.FailingPages, Subject: "/shop/*", Text: "2 pages of the route /shop/* fail, the latest example.com/shop/2: status 500", Link: "/"},
		{Kind: notices.Quarantine, Subject: "/blog", Text: "new content of the page example.com/blog is in quarantine: too short", Link: "/quarantine"},
	}
	if len(got) != len(want) {
		t.Fatalf("got %+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %+v, want %+v", got[i], want[i])
		}
	}
}

// TestNoticesOfHealth: what degrades a server is told, except maintenance.
func TestNoticesOfHealth(t *testing.T) {
	got := noticesOf([]problem{{checkDownstream, "cdn", "purges are not delivered to cdn"}, {checkMaintenance, "", "maintenance is on"}, {checkStores, "table", "no answer"}})
	want := []notices.Problem{
		{Kind: notices.Purges, Subject: "cdn", Text: "purges are not delivered to cdn", Link: "/purges"},
		{Kind: notices.Stores, Subject: "table", Text: "no answer", Link: "/"},
	}
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
