package metrics_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/facetheory/isr"
)

// Responses of many goroutines are all counted, exactly once, while others scrape.
func TestConcurrentResponsesAreCounted(t *testing.T) {
	m, _ := newMetrics(t)
	const goroutines, each = 8, 1000
	var busy sync.WaitGroup
	for range goroutines {
		busy.Go(func() {
			x := exchange(http.MethodGet, "/", http.StatusOK, isr.Report{Route: "/", Hit: true})
			for i := range each {
				m.Done(x)
				if i%100 == 0 {
					gather(t, m)
				}
			}
		})
	}
	busy.Wait()
	for name, labels := range map[string][]string{
		"isr_requests_total":                   {"cache=hit", "reason=", "route=/"},
		"http_server_request_duration_seconds": {"http_request_method=GET", "http_response_status_code=200", "http_route=/"},
		"isr_hit_duration_seconds":             nil,
	} {
		if got := value(t, m, name, labels...); got != goroutines*each {
			t.Errorf("%s is %v", name, got)
		}
	}
}

// The requests in flight are right also after a handler has panicked.
func TestActiveRequests(t *testing.T) {
	m, _ := newMetrics(t)
	serve := m.Active(func(w http.ResponseWriter, r *http.Request, next http.Handler) { next.ServeHTTP(w, r) })
	visit := func(next http.HandlerFunc) {
		defer func() { _ = recover() }()
		serve(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody), next)
	}
	visit(func(http.ResponseWriter, *http.Request) {
		visit(func(http.ResponseWriter, *http.Request) {
			if got := value(t, m, "http_server_active_requests"); got != 2 {
				t.Errorf("%v requests are in flight", got)
			}
			panic(http.ErrAbortHandler)
		})
		if got := value(t, m, "http_server_active_requests"); got != 1 {
			t.Errorf("then %v requests are in flight", got)
		}
	})
	if got := value(t, m, "http_server_active_requests"); got != 0 {
		t.Errorf("in the end %v requests are in flight", got)
	}
}
