package accesslog

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/facetheory/isr/internal/telemetry"
)

// Fields of one's own are written in their order, in both formats, by either of their names.
func TestFields(t *testing.T) {
	x := exchange()
	x.Request.Header["X-Long"] = []string{strings.Repeat("a", 600)}
	x.Request.Header["X-Odd"] = []string{"a\n\x1b[31m\""}
	x.Head = []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nx-served-by:  a \r\n\r\n")
	fields := []string{"status", "http.route", "request.referer", "response.content-type", "http.response.header.X-Served-By", "request.x-odd", "request.x-none", "stored", "duration", "time"}
	for format, want := range map[Format]string{
		JSON: `{"http.response.status_code":200,"http.route":"/news/","http.request.header.referer":"https://example.org/from","http.response.header.content-type":"text/html","http.response.header.x-served-by":"a","http.request.header.x-odd":"a\n\u001b[31m\"","isr.stored":true,"http.server.request.duration":1.612000,"time":"2026-11-23T17:05:01.234567Z"}`,
		Text: `status=200 route="/news/" referer="https://example.org/from" response.content-type="text/html" response.x-served-by="a" request.x-odd="a\x0a\x1b[31m\x22" request.x-none=- stored=true duration=1.612000 time=2026-11-23T17:05:01.234567Z`,
	} {
		if got := written(t, Config{Format: format, Fields: fields}, x); got != want+"\n" {
			t.Errorf("%s: got\n%swant\n%s", format, got, want)
		}
	}
	if got := written(t, Config{Fields: []string{"request.x-long"}}, x); strings.Count(got, "a") != 512+1 { // the a of header
		t.Errorf("a long header has %d bytes", len(got))
	}
}

// The header of a response is that which the handler has sent, also if it is changed later.
func TestResponseHeader(t *testing.T) {
	var out strings.Builder
	l, err := New(Config{Output: &out, Fields: []string{"response.content-type", "response.x-later"}})
	if err != nil {
		t.Fatal(err)
	}
	h := telemetry.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "a")
	}), l)
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	l.Close()
	if out.String() != `{"http.response.header.content-type":"text/plain"}`+"\n" {
		t.Error(out.String())
	}
}

func TestWrongFields(t *testing.T) {
	many := make([]string, MaxFields+1)
	for i := range many {
		many[i] = fmt.Sprintf("request.x-%d", i)
	}
	for _, c := range []struct {
		fields []string
		want   string
	}{
		{[]string{"staus"}, `has no field "staus"; expected request.HEADER, response.HEADER, or one of time, client, method`},
		{[]string{"request."}, `has no field "request."; expected the name of a header after "request."`},
		{[]string{"request.a b"}, "expected the name of a header"},
		{[]string{"request." + strings.Repeat("a", 65)}, "of at most 64 bytes"},
		{[]string{"request.cookie"}, "cannot have request.cookie: readers of the log could act as visitors"},
		{[]string{"request.Authorization"}, "cannot have request.authorization"},
		{[]string{"http.response.header.set-cookie"}, "cannot have response.set-cookie"},
		{[]string{"request.proxy-authorization"}, "cannot have request.proxy-authorization"},
		{[]string{"status", "http.response.status_code"}, "has the field http.response.status_code twice"},
		{[]string{"referer", "request.referer"}, "has the field request.referer twice"},
		{many, "has 65 fields; expected at most 64"},
	} {
		if err := CheckFields(c.fields); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %s", c.fields, err, c.want)
		}
	}
	if _, err := New(Config{Output: io.Discard, Fields: []string{"no"}}); err == nil || !strings.Contains(err.Error(), "the access log has no field") {
		t.Error(err)
	}
}
