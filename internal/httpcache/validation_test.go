package httpcache

import (
	"net/http"
	"reflect"
	"testing"
)

const (
	anyDate   = "Sat, 21 Nov 2026 10:00:00 GMT"
	laterDate = "Sat, 21 Nov 2026 11:00:00 GMT"
)

// TestConditions is RFC 9111, section 4.3.1.
func TestConditions(t *testing.T) {
	for _, tt := range []struct {
		name, etag string
		stored     http.Header
		want       http.Header
	}{
		{"no validator", "", http.Header{"Date": {anyDate}}, nil},
		{"an entity tag", `"a"`, nil, http.Header{"If-None-Match": {`"a"`}}},
		{"a date", "", http.Header{"Last-Modified": {anyDate}}, http.Header{"If-Modified-Since": {anyDate}}},
		{"both", `W/"a"`, http.Header{"Last-Modified": {anyDate}}, http.Header{"If-None-Match": {`W/"a"`}, "If-Modified-Since": {anyDate}}},
		{"an invalid date", "", http.Header{"Last-Modified": {"yesterday"}}, nil},
		{"two dates", "", http.Header{"Last-Modified": {anyDate, laterDate}}, nil},
	} {
		if got := Conditions(tt.etag, tt.stored); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestValidates is RFC 9111, section 4.3.4, for the one stored response that a request names.
func TestValidates(t *testing.T) {
	for _, tt := range []struct {
		name, etag, date string
		notModified      http.Header
		want             bool
	}{
		{"the entity tag", `"a"`, "", http.Header{"Etag": {`"a"`}}, true},
		{"a weak form of it", `"a"`, "", http.Header{"Etag": {`W/"a"`}}, true},
		{"another entity tag", `"a"`, "", http.Header{"Etag": {`"b"`}}, false},
		{"another entity tag, and the date", `"a"`, anyDate, http.Header{"Etag": {`"b"`}, "Last-Modified": {anyDate}}, false},
		{"the entity tag, and another date", `"a"`, anyDate, http.Header{"Etag": {`"a"`}, "Last-Modified": {laterDate}}, true},
		{"no entity tag", `"a"`, "", http.Header{"Etag": {"a"}}, false},
		{"two entity tags", `"a"`, "", http.Header{"Etag": {`"a"`, `"b"`}}, false},
		{"a strong entity tag of a response without one", "", anyDate, http.Header{"Etag": {`"a"`}, "Last-Modified": {anyDate}}, false},
		{"a weak entity tag of a response without one", "", anyDate, http.Header{"Etag": {`W/"a"`}, "Last-Modified": {anyDate}}, true},
		{"the date", "", anyDate, http.Header{"Last-Modified": {anyDate}}, true},
		{"the date in another format", "", anyDate, http.Header{"Last-Modified": {"Sat Nov 21 10:00:00 2026"}}, true},
		{"another date", "", anyDate, http.Header{"Last-Modified": {laterDate}}, false},
		{"an invalid date", "", anyDate, http.Header{"Last-Modified": {"yesterday"}}, false},
		{"a date of a response without one", `"a"`, "", http.Header{"Last-Modified": {anyDate}}, false},
		{"no validator", `"a"`, anyDate, http.Header{"Date": {anyDate}}, true},
	} {
		stored := http.Header{}
		if tt.date != "" {
			stored.Set("Last-Modified", tt.date)
		}
		if got := Validates(tt.etag, stored, tt.notModified); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
}

// TestFreshen is RFC 9111, section 3.2.
func TestFreshen(t *testing.T) {
	stored := http.Header{
		"Cache-Control": {"max-age=60"}, "Expires": {anyDate}, "Date": {anyDate}, "Cache-Status": {"cdn; hit"},
		"Content-Type": {"text/plain"}, "Link": {"<a>", "<b>"}, "X-Kept": {"yes"}, "Repr-Digest": {"sha-256=:a=:"},
		"Content-Security-Policy": {"script-src 'nonce-one'"}, "Content-Security-Policy-Report-Only": {"script-src 'self'"},
	}
	notModified := http.Header{
		"Cache-Control": {"max-age=120"}, "Etag": {`W/"a"`}, "Content-Type": {"text/html"}, "Link": {"<c>"}, "X-New": {"1", "2"}, "Age": {"3"},
		"Content-Length": {"0"}, "Content-Encoding": {"gzip"}, "Content-Range": {"bytes 0-1/2"}, "Transfer-Encoding": {"chunked"},
		"Repr-Digest": {"sha-256=:b=:"}, "Content-Digest": {"sha-256=:c=:"},
		"Content-Security-Policy": {"default-src 'self';script-src 'NONCE-two'"}, "Content-Security-Policy-Report-Only": {"script-src 'none'"},
	}
	want := http.Header{
		"Cache-Control": {"max-age=120"}, "Expires": {anyDate}, "Etag": {`"a"`}, "Content-Type": {"text/html"},
		"Link": {"<c>"}, "X-Kept": {"yes"}, "X-New": {"1", "2"}, "Age": {"3"}, "Repr-Digest": {"sha-256=:a=:"},
		"Content-Security-Policy": {"script-src 'nonce-one'"}, "Content-Security-Policy-Report-Only": {"script-src 'none'"},
	}
	got := Freshen(`"a"`, stored, notModified)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the header is\n%v\nwant\n%v", got, want)
	}
	got["X-Kept"][0], got["X-New"][0] = "changed", "changed"
	if stored.Get("X-Kept") != "yes" || notModified.Get("X-New") != "1" {
		t.Error("the headers share values")
	}
}
