package telemetry_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/telemetry"
)

var made = regexp.MustCompile(`^[0-9a-f]{32}$`)

func TestRequestID(t *testing.T) {
	long := strings.Repeat("a", 128)
	for name, c := range map[string]struct {
		field []string
		want  string // empty: one is made
	}{
		"none":       {nil, ""},
		"given":      {[]string{"Ab0._:+/=-"}, "Ab0._:+/=-"},
		"longest":    {[]string{long}, long},
		"too long":   {[]string{long + "a"}, ""},
		"empty":      {[]string{""}, ""},
		"two":        {[]string{"a", "b"}, ""},
		"list":       {[]string{"a, b"}, ""},
		"line break": {[]string{"a\nb"}, ""},
		"HTML":       {[]string{"<b>"}, ""},
		"not ASCII":  {[]string{"ä"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := make(exchanges, 1)
			var line string
			h := telemetry.NewRecorder(telemetry.RecorderConfig{Sinks: []telemetry.Sink{got}, RequestIDs: telemetry.RequestIDsAlways}).
				Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { line = isr.RequestIDLine(w) }))
			r, w := httptest.NewRequest(http.MethodGet, "/", http.NoBody), httptest.NewRecorder()
			if c.field != nil {
				r.Header["X-Request-Id"] = c.field
			}
			h.ServeHTTP(w, r)
			id := got.next(t).RequestID
			if c.want != "" && id != c.want || c.want == "" && !made.MatchString(id) {
				t.Errorf("the id is %q", id)
			}
			if w.Header().Get("X-Request-Id") != id || line != "Request ID: "+id+"\n" {
				t.Errorf("the client got %q, and the line is %q; want %q", w.Header(), line, id)
			}
		})
	}
}

func TestRequestIDsDiffer(t *testing.T) {
	seen := make(map[string]bool)
	h := telemetry.NewRecorder(telemetry.RecorderConfig{RequestIDs: telemetry.RequestIDsAlways}).Handler(http.HandlerFunc(hit))
	for range 1000 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		seen[w.Header().Get("X-Request-Id")] = true
	}
	if len(seen) != 1000 {
		t.Errorf("%d of 1000 ids differ", len(seen))
	}
}

// Which responses have the id, whatever the origin says in theirs.
func TestRequestIDOnResponses(t *testing.T) {
	for ids, want := range map[telemetry.RequestIDs][]string{
		telemetry.RequestIDsAlways: {"mine", "mine", "mine", "mine"},
		telemetry.RequestIDsMisses: {"", "mine", "mine", "mine"},
		telemetry.RequestIDsErrors: {"", "", "mine", "mine"},
		telemetry.RequestIDsOff:    {"of origin", "of origin", "of origin", "of origin"},
	} {
		var got []string
		for _, c := range []struct {
			hit    bool
			status int
		}{{true, 200}, {false, 200}, {true, 404}, {false, 502}} {
			h := telemetry.NewRecorder(telemetry.RecorderConfig{RequestIDs: ids}).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.(isr.Reporter).Report().Hit = c.hit
				w.Header().Set("X-Request-Id", "of origin")
				w.WriteHeader(c.status)
			}))
			r, w := httptest.NewRequest(http.MethodGet, "/", http.NoBody), httptest.NewRecorder()
			r.Header.Set("X-Request-Id", "mine")
			h.ServeHTTP(w, r)
			got = append(got, w.Header().Get("X-Request-Id"))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", ids, got, want)
		}
	}
}

// Sinks get the ids of hits only if they need them.
func TestIDsOfHits(t *testing.T) {
	for _, identify := range []bool{false, true} {
		for _, isHit := range []bool{false, true} {
			got := make(exchanges, 1)
			h := telemetry.NewRecorder(telemetry.RecorderConfig{
				Sinks: []telemetry.Sink{got}, RequestIDs: telemetry.RequestIDsErrors, IdentifyHits: func() bool { return identify },
			}).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.(isr.Reporter).Report().Hit = isHit }))
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody))
			if id := got.next(t).RequestID; (id != "") != (identify || !isHit) {
				t.Errorf("hit %v, IdentifyHits %v: the id is %q", isHit, identify, id)
			}
		}
	}
}

func BenchmarkRequestID(b *testing.B) {
	h := telemetry.NewRecorder(telemetry.RecorderConfig{RequestIDs: telemetry.RequestIDsAlways}).Handler(http.HandlerFunc(hit))
	w, r := &discard{header: http.Header{}}, httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	b.ReportAllocs()
	for b.Loop() {
		delete(r.Header, "X-Request-Id")
		h.ServeHTTP(w, r)
	}
}
