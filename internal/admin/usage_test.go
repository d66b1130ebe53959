package admin_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/facetheory/isr/internal/admin"
)

func TestUsage(t *testing.T) {
	f := newFixture(t)
	if a := f.ask("GET", "/-/usage", ""); a.status != 409 || a.code != "not_counted" {
		t.Errorf("without a meter: %d %s", a.status, a.text)
	}
	meter := new(admin.Meter)
	f.serve(admin.Config{Cache: f.cache, Meter: meter})
	if u, err := f.client().Usage(t.Context()); err != nil || len(u.Operations) != 0 || u.Until.Before(u.Since) {
		t.Errorf("before all: %+v, %v", u, err)
	}
	var wait sync.WaitGroup
	for range 10 {
		wait.Go(func() {
			meter.Count("publish", 0, 4)
			meter.Count("acquire", 0.5, 1)
		})
	}
	wait.Wait()
	u, err := f.client().Usage(t.Context())
	want := []admin.OperationUsage{
		{Operation: "acquire", Answers: 10, ReadUnits: 5, WriteUnits: 10},
		{Operation: "publish", Answers: 10, WriteUnits: 40},
	}
	if err != nil || !slices.Equal(u.Operations, want) {
		t.Errorf("%+v, %v; want %+v", u, err, want)
	}
	f.ask("GET", "/-/usage", "") // checked against the document
}
