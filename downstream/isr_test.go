package downstream_test

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/facetheory/isr/downstream"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/internal/testbed"
	"github.com/facetheory/isr/store"
)

// TestISRAcceptsDeliveries: the admin API of another isr accepts what is delivered to it,
// and purges that.
func TestISRAcceptsDeliveries(t *testing.T) {
	t.Parallel()
	meta := testbed.Table(t)
	api, err := admin.New(meta, testbed.Bodies(t), admin.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(api.Handler())
	t.Cleanup(server.Close)
	targets := []store.PurgeTarget{
		tag("news"), prefix("example.com/blog/"), page("example.com/a?b=1"),
		{Kind: store.PurgeTag, Tenant: "acme", Value: "news"},
		{Kind: store.PurgeTenant, Tenant: "acme"},
		{Kind: store.PurgeSite},
	}
	for i := range store.MaxPurgeTargets { // as many pages as one purge can have
		targets = append(targets, page(fmt.Sprintf("example.com/%d", i)))
	}
	for _, hard := range []bool{false, true} {
		if err := downstream.NewISR(server.URL, token).Deliver(t.Context(), downstream.Batch{ID: "b1", Targets: targets, Hard: hard}); err != nil {
			t.Fatal(err)
		}
	}
	var marks []string
	for m, err := range meta.Marks(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if m.HardSeq == 0 {
			t.Errorf("%s was not purged hard", m.Target)
		}
		marks = append(marks, m.Target.String())
	}
	for _, want := range targets {
		if want.Kind != store.PurgeKey && !slices.Contains(marks, want.String()) {
			t.Errorf("no mark of %s; there are %s", want, strings.Join(marks, ", "))
		}
	}
	rec, err := meta.Read(t.Context(), store.HashedPartition(store.Key{Text: "example.com/a?b=1"}))
	if err != nil || rec.Purges.HardSeq == 0 {
		t.Errorf("the page was not purged: %+v, %v", rec.Purges, err)
	}
}
