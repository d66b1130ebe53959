package httpcache

import (
	"net/http"
	"slices"
	"testing"
	"time"
)

// Browsers do not keep an error response as if it were the file that it replaces.
func TestBriefError(t *testing.T) {
	far := time.Now().Add(365 * 24 * time.Hour).UTC().Format(http.TimeFormat)
	for _, test := range []struct {
		status  int
		control []string
		expires string
		want    string // empty: the fields stay
	}{
		{404, []string{"public, max-age=31536000, immutable"}, "", "public, max-age=10"},
		{410, []string{"immutable", "max-age=5"}, "", "max-age=5"},
		{403, []string{"max-age=31536000"}, "", "max-age=10"},
		{503, []string{"Max-Age=315360000, s-maxage=60, no-transform"}, far, "s-maxage=60, no-transform, max-age=10"},
		{404, []string{"private, IMMUTABLE, no-store"}, "", "private, no-store, max-age=10"},
		{404, []string{`public, ext="a, immutable", immutable`}, "", `public, ext="a, immutable", max-age=10`},
		{404, nil, far, "max-age=10"},
		{404, []string{"public"}, far, "public, max-age=10"},
		{404, []string{"max-age=600"}, far, ""}, // Expires is ignored
		{404, []string{"max-age=86400"}, "", ""},
		{404, []string{"s-maxage=31536000"}, "", ""},
		{404, nil, "0", ""},
		{404, nil, "", ""},
		{200, []string{"public, max-age=31536000, immutable"}, far, ""},
		{301, []string{"max-age=31536000, immutable"}, "", ""},
	} {
		h := make(http.Header)
		if test.control != nil {
			h["Cache-Control"] = test.control
		}
		if test.expires != "" {
			h.Set("Expires", test.expires)
		}
		var want []string
		if test.want != "" {
			want = []string{test.want}
		}
		if got := BriefError(test.status, h); !slices.Equal(got, want) {
			t.Errorf("%d %v: %q, want %q", test.status, h, got, want)
		}
	}
}
