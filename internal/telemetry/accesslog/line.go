package accesslog

import (
	"net/http"
	"strings"

	"github.com/facetheory/isr/internal/telemetry"
)

// The longest values of a line, in bytes. Longer ones are cut off.
const (
	maxMethod  = 32
	maxHost    = 255
	maxPath    = 2048
	maxQuery   = 2048
	maxWord    = 256 // of the cache: routes, reasons, ids
	maxAgent   = 512
	maxReferer = 1024
)

// A line has what is written of an exchange. Empty values and zeros are left out of JSON.
type line struct {
	*telemetry.Exchange
	method, scheme, host, port string
	path, query                string
	protocol, client           string
	agent, referer             string
	cache                      string // "hit", fwd of Cache-Status, or "none"
	rate                       int    // one in so many such requests has a line
	json                       object // in which JSON is made, so that it costs no allocation
}

func newLine(x *telemetry.Exchange, rate int, address Address) line {
	r := x.Request
	l := line{
		Exchange: x, rate: rate, method: cut(r.Method, maxMethod), scheme: "http", protocol: protocolOf(r),
		path: cut(r.URL.EscapedPath(), maxPath), client: address.clientOf(r.RemoteAddr),
		agent: cut(first(r.Header["User-Agent"]), maxAgent), referer: cut(withoutQuery(first(r.Header["Referer"])), maxReferer),
		cache: "none",
	}
	l.host, l.port = splitHost(cut(r.Host, maxHost))
	if r.TLS != nil {
		l.scheme = "https"
	}
	if of := first(r.Header["X-Forwarded-Proto"]); of == "https" || of == "http" {
		l.scheme = of // of a trusted peer: the edge drops others
	}
	switch {
	case x.Hit:
		l.cache = "hit"
	case x.Forward != "":
		l.cache = x.Forward
	}
	if strings.IndexByte(x.Key.Text, '?') >= 0 {
		_, _, query, _ := x.Key.Split() // the parameters that the route declares
		l.query = cut(query, maxQuery)
	}
	return l
}

// cut returns at most n bytes of a text.
func cut(s string, n int) string { return s[:min(len(s), n)] }

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// protocolOf returns the version of HTTP: "1.0", "1.1", "2" or "3".
func protocolOf(r *http.Request) string {
	switch {
	case r.ProtoMajor == 2:
		return "2"
	case r.ProtoMajor == 3:
		return "3"
	case r.ProtoMajor == 1 && r.ProtoMinor == 0:
		return "1.0"
	}
	return "1.1"
}

// splitHost splits "host:port" and "[host]:port"; the port may be missing.
func splitHost(s string) (host, port string) {
	if strings.HasPrefix(s, "[") {
		host, rest, _ := strings.Cut(s[1:], "]")
		return host, strings.TrimPrefix(rest, ":")
	}
	host, port, _ = strings.Cut(s, ":")
	return host, port
}

// withoutQuery returns the URL of a referring page without query, fragment, and user
// information, any of which may have secrets.
func withoutQuery(referer string) string {
	if i := strings.IndexAny(referer, "?#"); i >= 0 {
		referer = referer[:i]
	}
	if !strings.Contains(referer, "@") {
		return referer
	}
	start := 0 // of the authority; clients may leave out the scheme
	if i := strings.Index(referer, "//"); i >= 0 {
		start = i + len("//")
	}
	end := start + strings.IndexByte(referer[start:]+"/", '/')
	if at := strings.LastIndexByte(referer[start:end], '@'); at >= 0 {
		return referer[:start] + referer[start+at+1:]
	}
	return referer
}
