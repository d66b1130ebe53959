package fastpath

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/facetheory/isr/internal/httpconn"
)

// Which heads are read here. TestStreams compares the responses, and cannot see a guard that
// another one hides: the one of net/http, or the one of the cache.
func TestHeads(t *testing.T) {
	const (
		read     = httpconn.Answered
		declined = httpconn.Declined
		refused  = httpconn.Refused
		host     = "Host: h\r\n"
		line     = "GET /a HTTP/1.1\r\n"
	)
	fields := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString("X-" + strings.Repeat("a", i+1) + ": y\r\n")
		}
		return b.String()
	}
	for name, tt := range map[string]struct {
		head string // without the empty line
		want httpconn.Outcome
	}{
		"plain":            {line + host, read},
		"HEAD":             {"HEAD /a HTTP/1.1\r\n" + host, read},
		"a query":          {"GET /a?b=c&d HTTP/1.1\r\n" + host, read},
		"a root":           {"GET / HTTP/1.1\r\n" + host, read},
		"every path byte":  {"GET /azAZ09-_.~$&+,/:;=@ HTTP/1.1\r\n" + host, read},
		"slashes within":   {"GET /a//b HTTP/1.1\r\n" + host, read},
		"keep-alive":       {line + host + "Connection: Keep-Alive\r\n", read},
		"no value":         {line + host + "X:\r\n", read},
		"the most fields":  {line + host + fields(maxFields), read},
		"too many fields":  {line + host + fields(maxFields+1), declined},
		"LF":               {"GET /a HTTP/1.1\n" + host, refused},
		"LF, no CR before": {"GET /a HTTP/1.1X\n" + host, refused},
		"LF of a field":    {line + host + "X: y\n", refused},
		"LF, no CR, field": {line + host + "X: yz\nA: b\r\n", refused},
		"LF alone":         {line + host + "\n", refused},
		"no line":          {"\r\n", refused},

		"HTTP/1.0":            {"GET /a HTTP/1.0\r\n" + host, refused},
		"http/1.1":            {"GET /a http/1.1\r\n" + host, refused},
		"no space before":     {"GET /aHTTP/1.1\r\n" + host, refused},
		"no version":          {"GET /a\r\n" + host, refused},
		"a space at the end":  {"GET /a HTTP/1.1 \r\n" + host, refused},
		"POST":                {"POST /a HTTP/1.1\r\n" + host, refused},
		"get":                 {"get /a HTTP/1.1\r\n" + host, refused},
		"GETS":                {"GETS /a HTTP/1.1\r\n" + host, refused},
		"no method":           {" /a HTTP/1.1\r\n" + host, refused},
		"two spaces":          {"GET  /a HTTP/1.1\r\n" + host, declined},
		"no path":             {"GET  HTTP/1.1\r\n" + host, declined},
		"a query, no path":    {"GET ?a HTTP/1.1\r\n" + host, declined},
		"no slash":            {"GET a HTTP/1.1\r\n" + host, declined},
		"two slashes":         {"GET //a HTTP/1.1\r\n" + host, declined},
		"an empty query":      {"GET /a? HTTP/1.1\r\n" + host, declined},
		"absolute form":       {"GET http://h/a HTTP/1.1\r\n" + host, declined},
		"asterisk form":       {"GET * HTTP/1.1\r\n" + host, declined},
		"a space in the path": {"GET /a b HTTP/1.1\r\n" + host, declined},

		"no host":              {line, refused},
		"an empty host":        {line + "Host:\r\n", refused},
		"two hosts":            {line + host + host, refused},
		"two hosts, one empty": {line + "Host:\r\n" + host, refused},
		"an empty host, later": {line + host + "host: \r\n", refused},

		"no colon":            {line + host + "X\r\n", refused},
		"no name":             {line + host + ": y\r\n", refused},
		"a folded line":       {line + host + "X: y\r\n z: w\r\n", refused},
		"a space in a name":   {line + host + "X y: z\r\n", refused},
		"a space after":       {line + host + "X : z\r\n", refused},
		"beyond ASCII, name":  {line + host + "X\xe4: z\r\n", refused},
		"a slash in a name":   {line + host + "X/y: z\r\n", refused},
		"NUL":                 {line + host + "X: a\x00b\r\n", refused},
		"CR":                  {line + host + "X: a\rb\r\n", refused},
		"DEL":                 {line + host + "X: a\x7fb\r\n", refused},
		"beyond ASCII, value": {line + host + "X: \xe4\r\n", declined},
		"beyond ASCII, host":  {line + "Host: \xe4\r\n", declined},
		"repeated":            {line + host + "X: y\r\nx: z\r\n", declined},
		"repeated, known":     {line + host + "Cookie: y\r\ncookie: z\r\n", declined},

		"Connection: close":          {line + host + "Connection: close\r\n", declined},
		"Connection: a list":         {line + host + "Connection: keep-alive, X\r\n", declined},
		"Connection without a value": {line + host + "Connection:\r\n", declined},
	} {
		q := newRequest()
		if got := q.read([]byte(tt.head+"\r\n"), newSyntax()); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
}

// Each byte that is not plain in a path or a query makes the target net/http's.
func TestBytesOfTargets(t *testing.T) {
	for c := range 256 {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		for prefix, plain := range map[string]string{"/a": "-_.~$&+,/:;=@?", "/a?b": "!$%&'()*+,-./:;=?@[]_~"} {
			target := prefix + string([]byte{byte(c)}) + "c"
			want := letter || c > 0 && strings.IndexByte(plain, byte(c)) >= 0
			q := newRequest()
			got := q.read([]byte("GET "+target+" HTTP/1.1\r\nHost: h\r\n\r\n"), newSyntax()) == httpconn.Answered
			if got != want {
				t.Errorf("%q is read: %t, want %t", target, got, want)
				continue
			}
			if !got {
				continue
			}
			u, err := url.ParseRequestURI(target) // as net/http does
			if err != nil || u.Path != q.url.Path || u.RawQuery != q.url.RawQuery || u.RawPath != "" || u.RequestURI() != target {
				t.Errorf("%q: %q and %q, but net/http reads %q, %q, %v", target, q.url.Path, q.url.RawQuery, u.Path, u.RawQuery, err)
			}
		}
	}
}

// Fields that decide who answers do so in whatever case they are sent.
func TestFieldsOfAKind(t *testing.T) {
	kinds := map[httpconn.Outcome][]string{
		httpconn.Refused:  {"Content-Length", "Transfer-Encoding", "Trailer"},
		httpconn.Declined: {"Upgrade", "Expect", "Pragma", "HTTP2-Settings"},
	}
	for want, names := range kinds {
		for _, name := range names {
			odd := strings.ToUpper(name[:2]) + strings.ToLower(name[2:len(name)-1]) + strings.ToUpper(name[len(name)-1:])
			for _, sent := range []string{name, strings.ToLower(name), strings.ToUpper(name), http.CanonicalHeaderKey(name), odd} {
				if got := newRequest().read([]byte("GET /a HTTP/1.1\r\nHost: h\r\n"+sent+": 0\r\n\r\n"), newSyntax()); got != want {
					t.Errorf("%s: %d, want %d", sent, got, want)
				}
			}
		}
	}
}

// Each byte of a value counts, wherever it is.
func TestBytesOfValues(t *testing.T) {
	x := newSyntax()
	for c := range 256 {
		want := httpconn.Answered
		switch {
		case c < ' ' && c != '\t', c == 0x7f:
			want = httpconn.Refused
		case c >= 0x80:
			want = httpconn.Declined
		}
		for length := 1; length <= 18; length++ {
			for at := range length {
				value := []byte(strings.Repeat("~", length))
				value[at] = byte(c)
				if c == '\n' && at+1 == length {
					continue // an empty line follows
				}
				if got := newRequest().read([]byte("GET /a HTTP/1.1\r\nHost: h\r\nX: "+string(value)+"\r\n\r\n"), x); got != want {
					t.Errorf("%q: %d, want %d", value, got, want)
				}
			}
		}
	}
}

// Fields that are known are found in each spelling, and again when they are repeated in another one.
func TestKnownFields(t *testing.T) {
	x := newSyntax()
	if x.known > 64 {
		t.Fatalf("%d fields are known, of which each has one of 64 bits", x.known)
	}
	for _, in := range x.fields {
		for _, known := range in {
			upper := strings.ToUpper(known.name)
			for _, sent := range []string{known.name, known.field.name, strings.ToLower(known.name), upper} {
				if f := x.field([]byte(sent)); f != known.field {
					t.Errorf("%s: %+v, want %+v", sent, f, known.field)
				}
			}
			if known.kind != isPlain {
				continue
			}
			q := newRequest()
			head := "GET /a HTTP/1.1\r\nHost: h\r\n" + known.name + ": 1\r\n"
			if got := q.read([]byte(head+"\r\n"), x); got != httpconn.Answered || !slices.Equal(q.http.Header[known.field.name], []string{"1"}) {
				t.Errorf("%s: %d, %q", known.name, got, q.http.Header)
			}
			if got := newRequest().read([]byte(head+upper+": 1\r\n\r\n"), x); got != httpconn.Declined {
				t.Errorf("%s twice: %d", known.name, got)
			}
		}
	}
}

// A request has the names and the values that net/http reads, and once it is cleared, nothing of them.
func TestRequestOfAHead(t *testing.T) {
	q := newRequest()
	head := "GET /a?b=c HTTP/1.1\r\nhOST: \t h:80 \t\r\nX-odd-NAME:\t a b \t\r\ncookie: a=b\r\nEmpty: \t\r\n\r\n"
	if got := q.read([]byte(head), newSyntax()); got != httpconn.Answered {
		t.Fatal(got)
	}
	q.http.RemoteAddr = "192.0.2.1:1"
	want := http.Header{"X-Odd-Name": {"a b"}, "Cookie": {"a=b"}, "Empty": {""}}
	if !maps.EqualFunc(q.http.Header, want, slices.Equal) {
		t.Errorf("%q, want %q", q.http.Header, want)
	}
	if q.http.Method != http.MethodGet || q.http.Host != "h:80" || q.http.RequestURI != "/a?b=c" || q.url.Path != "/a" || q.url.RawQuery != "b=c" {
		t.Errorf("%q %q %q %+v", q.http.Method, q.http.Host, q.http.RequestURI, q.url)
	}
	q.hit.Report.Detail, q.hit.Request, q.hit.Header, q.hit.Body = "x", &q.http, []byte("x"), []byte("x")
	q.exchange.Request, q.exchange.RequestID = &q.http, "x"
	q.clear()
	if len(q.http.Header) > 0 || q.http.Method+q.http.Host+q.http.RequestURI+q.http.RemoteAddr != "" || q.url != (url.URL{}) {
		t.Errorf("%q %q %q %q %+v stay", q.http.Header, q.http.Method, q.http.Host, q.http.RequestURI, q.url)
	}
	if q.hit.Report.Detail != "" || q.hit.Request != nil || q.hit.Header != nil || q.hit.Body != nil || q.exchange.Request != nil || q.exchange.RequestID != "" {
		t.Errorf("%+v and %+v stay", &q.hit, q.exchange)
	}
}

// TestDetach: a text of a request that handlers get does not keep the rest of the head in memory.
func TestDetach(t *testing.T) {
	const head = "GET /a-path-that-is-kept?query=that-is-kept HTTP/1.1\r\nHost: a-host-that-is-kept.test\r\n" +
		"X-Tenant: a-tenant-that-is-kept\r\nX-A-Name-That-Is-Kept: a value\r\nCookie: session=that-is-not\r\n\r\n"
	sent := []byte(head)
	r := newRequest().detach(sent, newSyntax())
	clear(sent)
	var texts []string
	for name, values := range r.Header {
		if name == "X-A-Name-That-Is-Kept" {
			texts = append(texts, name) // others are fields of the syntax
		}
		texts = append(texts, values...)
	}
	texts = append(texts, r.Host, r.RequestURI, r.URL.Path, r.URL.RawQuery)
	for i, a := range texts {
		if !strings.Contains(head, a) {
			t.Errorf("%q is not what was sent", a)
		}
		for _, b := range texts[:i] {
			between := uintptr(unsafe.Pointer(unsafe.StringData(a))) - uintptr(unsafe.Pointer(unsafe.StringData(b)))
			if between == uintptr(strings.Index(head, a)-strings.Index(head, b)) {
				t.Errorf("%q and %q are parts of one text", a, b)
			}
		}
	}
}
