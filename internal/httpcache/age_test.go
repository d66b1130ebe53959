package httpcache

import (
	"net/http"
	"testing"
	"time"
)

// TestInitialAge is RFC 9111, section 4.2.3: the apparent age counts beyond the tolerance for clocks.
func TestInitialAge(t *testing.T) {
	requested := time.Date(2026, time.November, 21, 10, 0, 0, 900e6, time.UTC)
	for _, tt := range []struct {
		name, age, date string
		want            time.Duration
	}{
		{name: "neither"},
		{name: "Age", age: "7", want: 7 * time.Second},
		{name: "a current Date", date: anyDate},
		{name: "a Date in the future", date: laterDate},
		{name: "a clock two minutes behind", date: "Sat, 21 Nov 2026 09:58:00 GMT"},
		{name: "an old Date", date: "Sat, 21 Nov 2026 09:57:59 GMT", want: 121 * time.Second},
		{name: "an older Date, and Age", age: "7", date: "Sat, 21 Nov 2026 09:00:00 GMT", want: time.Hour},
		{name: "an old Date, and more Age", age: "7200", date: "Sat, 21 Nov 2026 09:00:00 GMT", want: 2 * time.Hour},
		{name: "an invalid Date", age: "7", date: "yesterday", want: 7 * time.Second},
		{name: "a Date long ago", date: "Thu, 01 Jan 1970 00:00:00 GMT", want: maxDelta},
	} {
		h := make(http.Header)
		if tt.age != "" {
			h.Set("Age", tt.age)
		}
		if tt.date != "" {
			h.Set("Date", tt.date)
		}
		if got := InitialAge(h, requested); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	if got := InitialAge(http.Header{"Date": {"Sat, 21 Nov 2026 09:00:00 GMT"}}, time.Time{}); got != 0 {
		t.Errorf("without the time of the request: %v", got)
	}
}

// TestUpstreamStatus is RFC 9211, section 2.
func TestUpstreamStatus(t *testing.T) {
	own := Status{Hit: true}
	for _, tt := range []struct {
		lines []string
		want  string
	}{
		{nil, "isr; hit"},
		{[]string{"a; hit", `"b b"; fwd=miss`}, `a; hit, "b b"; fwd=miss, isr; hit`},
		{[]string{"a; ;"}, "isr; hit"},
		{[]string{""}, "isr; hit"},
	} {
		if got := own.After(UpstreamStatus(tt.lines)); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.lines, got, tt.want)
		}
	}
}
