package conformance_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/conformance"
)

// A proxy without a cache does nothing that is forbidden, and nothing that a good cache does.
// One that keeps everything for ever is caught.
func TestSuiteTellsCachesApart(t *testing.T) {
	names := make(map[string]bool)
	for _, c := range conformance.Cases() {
		if names[c.Name] || c.Section == "" || len(c.Steps) == 0 {
			t.Errorf("case %q occurs twice or is not complete", c.Name)
		}
		names[c.Name] = true
	}
	forward := func(target *url.URL) http.Handler { return httputil.NewSingleHostReverseProxy(target) }
	for _, tt := range []struct {
		name                                string
		cache                               func(http.Handler) http.Handler
		mostRequired, leastRequired         int // failures
		mostOptimalPassed, leastOptimalPass int
	}{
		{"no cache", func(h http.Handler) http.Handler { return h }, 3, 0, 25, 1},
		{"everything for ever", keepAll, 200, 50, 110, 40},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			suite := conformance.New("run")
			origin := httptest.NewServer(suite)
			t.Cleanup(origin.Close)
			target, err := url.Parse(origin.URL)
			if err != nil {
				t.Fatal(err)
			}
			cache := httptest.NewServer(tt.cache(forward(target)))
			t.Cleanup(cache.Close)
			required, optimal := 0, 0
			for _, r := range suite.Run(t.Context(), cache.URL, conformance.Cases()) {
				switch {
				case r.Case.Level == conformance.Required && r.Outcome == conformance.Failed:
					required++
					t.Logf("%s: %s", r.Case.Name, r.Reason)
				case r.Case.Level == conformance.Optimal && r.Outcome == conformance.Passed:
					optimal++
				}
			}
			if required < tt.leastRequired || required > tt.mostRequired || optimal < tt.leastOptimalPass || optimal > tt.mostOptimalPassed {
				t.Errorf("%d required cases failed, %d optimal ones passed", required, optimal)
			}
		})
	}
}

// A case that a busy machine made late shows nothing about the cache: it runs again, elsewhere.
func TestLateCaseRunsAgain(t *testing.T) {
	suite := conformance.New("run")
	keeping := keepAll(suite)
	var first sync.Map
	cache := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if seen, _ := first.LoadOrStore("path", r.URL.Path); seen == r.URL.Path {
			time.Sleep(time.Second)
			suite.ServeHTTP(w, r)
			return
		}
		keeping.ServeHTTP(w, r)
	}))
	t.Cleanup(cache.Close)
	cases := slices.DeleteFunc(conformance.Cases(), func(c conformance.Case) bool { return c.Name != "request/max-age=100" })
	results := suite.Run(t.Context(), cache.URL, cases)
	if len(results) != 1 || results[0].Outcome != conformance.Passed {
		t.Errorf("a case that was late the first time: %+v", results)
	}
}

// keepAll answers every request for a path with the first response.
func keepAll(next http.Handler) http.Handler {
	var kept sync.Map
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, found := kept.Load(r.URL.Path)
		if !found {
			rec := httptest.NewRecorder()
			next.ServeHTTP(rec, r)
			answer, _ = kept.LoadOrStore(r.URL.Path, rec)
		}
		rec := answer.(*httptest.ResponseRecorder)
		maps.Copy(w.Header(), rec.Header())
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes())
	})
}
