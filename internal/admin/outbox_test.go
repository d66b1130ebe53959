package admin_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/store"
)

// TestOutbox: jobs are listed with their reasons, retried, also while their destination is
// in back-off, and dropped.
func TestOutbox(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	client, err := admin.NewClient(f.open.URL, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	list := func() (all []admin.Delivery) {
		t.Helper()
		for d, err := range client.Outbox(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, d)
		}
		return all
	}
	if all := list(); len(all) > 0 {
		t.Errorf("an empty outbox has %+v", all)
	}
	_, err = f.store.Purge(t.Context(), store.Purge{Targets: []store.PurgeTarget{{Kind: store.PurgeTag, Value: "news"}}, Destinations: []string{"cdn"}})
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := f.store.PendingJobs(t.Context(), "cdn", 1)
	if err != nil {
		t.Fatal(err)
	}
	j := jobs[0]
	j.Attempts, j.Error, j.FailedAt = 7, "invalid tag", time.Now()
	if err := f.store.FailJob(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	all := list()
	if len(all) != 1 || all[0].ID != j.ID() || all[0].State != admin.DeliveryFailed || all[0].Reason != "invalid tag" || all[0].Attempts != 7 ||
		all[0].TargetCount != 1 || all[0].Targets[0] != "tag news" || all[0].FailedAt.IsZero() {
		t.Errorf("the outbox has %+v", all)
	}

	l, err := f.store.Acquire(t.Context(), store.OutboxPartition("cdn"), time.Minute, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.store.BackOff(t.Context(), l, time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := client.RetryDelivery(t.Context(), admin.DeliveryTarget{ID: j.ID()}); err != nil {
		t.Fatal(err)
	}
	if all := list(); len(all) != 1 || all[0].State != admin.DeliveryPending || all[0].Attempts != 0 {
		t.Errorf("after the retry the outbox has %+v", all)
	}
	if _, err := f.store.Acquire(t.Context(), store.OutboxPartition("cdn"), time.Minute, nil); err != nil {
		t.Errorf("the back-off remains after the retry: %v", err)
	}

	if _, err := client.DropDelivery(t.Context(), admin.DeliveryTarget{ID: j.ID()}); err != nil {
		t.Fatal(err)
	}
	if all := list(); len(all) > 0 {
		t.Errorf("after the drop the outbox has %+v", all)
	}
	for id, want := range map[string]int{j.ID(): http.StatusNotFound, "cdn": http.StatusBadRequest, "CDN/1": http.StatusBadRequest, "cdn/-1": http.StatusBadRequest, "": http.StatusBadRequest} {
		_, retried := client.RetryDelivery(t.Context(), admin.DeliveryTarget{ID: id})
		_, dropped := client.DropDelivery(t.Context(), admin.DeliveryTarget{ID: id})
		for _, err := range []error{retried, dropped} {
			if e, ok := errors.AsType[*admin.Error](err); !ok || e.Status != want {
				t.Errorf("%q: %v, want status %d", id, err, want)
			}
		}
	}
}
