//go:build !race

// The race detector makes a sync.Pool forget at random, so that these tests would fail.

package telemetry_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/facetheory/isr/internal/telemetry"
)

func TestHitAllocatesNothing(t *testing.T) {
	sink := &count{}
	h := telemetry.Handler(http.HandlerFunc(hit), sink)
	w, r := &discard{header: http.Header{}}, httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	if n := testing.AllocsPerRun(10_000, func() { h.ServeHTTP(w, r) }); n > 0 {
		t.Errorf("a hit allocates %v times", n)
	}
	if sink.hits != 10_001 {
		t.Errorf("%d hits were reported", sink.hits)
	}
}

// Ids are made in batches, so that the average rounds to no allocation.
func TestRequestIDAllocatesNothing(t *testing.T) {
	h := telemetry.NewRecorder(telemetry.RecorderConfig{RequestIDs: telemetry.RequestIDsAlways}).Handler(http.HandlerFunc(hit))
	w, r := &discard{header: http.Header{}}, httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	if n := testing.AllocsPerRun(10_000, func() {
		delete(r.Header, "X-Request-Id")
		h.ServeHTTP(w, r)
	}); n > 0 {
		t.Errorf("a hit allocates %v times", n)
	}
}
