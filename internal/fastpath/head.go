package fastpath

import (
	"bytes"
	"encoding/binary"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"unsafe"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/httpconn"
	"github.com/facetheory/isr/internal/telemetry"
)

// maxFields bounds the fields of a head that is answered here. Browsers send some 15.
const maxFields = 64

// A request is what is needed to answer one. It is used for many, one after the other.
type request struct {
	http     http.Request
	url      url.URL
	fields   [maxFields]string // values of the header
	used     int               // of them
	hit      isr.Hit
	exchange telemetry.Exchange
}

func newRequest() *request {
	q := &request{}
	q.http = http.Request{
		URL: &q.url, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: make(http.Header, maxFields/2), Body: http.NoBody,
	}
	return q
}

// clear forgets the texts of the request.
func (q *request) clear() {
	clear(q.fields[:q.used])
	q.used = 0
	clear(q.http.Header)
	q.hit.Report, q.hit.Request, q.hit.Header, q.hit.Body = isr.Report{}, nil, nil, nil
	q.exchange = telemetry.Exchange{}
	q.url = url.URL{}
	q.http.Method, q.http.RequestURI, q.http.Host, q.http.RemoteAddr = "", "", "", ""
}

// detach reads a valid head into a request that handlers may keep. Each text is a separate copy, so that
// keeping one does not keep the rest of the head in memory.
func (q *request) detach(head []byte, x *syntax) *http.Request {
	q.read(head, x)
	r := &http.Request{
		Method: q.http.Method, URL: &url.URL{Path: strings.Clone(q.url.Path), RawQuery: strings.Clone(q.url.RawQuery)},
		Proto: q.http.Proto, ProtoMajor: q.http.ProtoMajor, ProtoMinor: q.http.ProtoMinor,
		Header: make(http.Header, len(q.http.Header)), Body: http.NoBody,
		Host: strings.Clone(q.http.Host), RequestURI: strings.Clone(q.http.RequestURI),
	}
	values := make([]string, 0, len(q.http.Header))
	for name, lines := range q.http.Header {
		values = append(values, strings.Clone(lines[0]))
		r.Header[x.kept(name)] = values[len(values)-1 : len(values) : len(values)]
	}
	return r
}

// kept returns a canonical name that may be kept.
func (x *syntax) kept(name string) string {
	if f := x.find([]byte(name)); f != nil {
		return f.name
	}
	return strings.Clone(name)
}

// text returns bytes as a string that is valid for as long as they do not change.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// read reads a head that ends with an empty line, as net/http would. It returns Answered if the
// request can be answered here.
func (q *request) read(head []byte, x *syntax) httpconn.Outcome {
	end := bytes.IndexByte(head, '\n')
	if end < 1 || head[end-1] != '\r' {
		return httpconn.Refused
	}
	if outcome := q.readLine(head[:end-1], x); outcome != httpconn.Answered {
		return outcome
	}
	seen := uint64(0)
	for rest := head[end+1:]; ; {
		end := bytes.IndexByte(rest, '\n')
		if end < 1 || rest[end-1] != '\r' {
			return httpconn.Refused
		}
		if end == 1 {
			break // the empty line, which is the last one
		}
		name, value, classes := x.cutField(rest[:end-1])
		if classes == 0 {
			return httpconn.Refused
		}
		if rest = rest[end+1:]; q.used == maxFields {
			return httpconn.Declined
		}
		f := x.field(name)
		repeated := seen&f.bit != 0
		switch {
		case f.kind == isFraming, f.kind == isHost && repeated:
			return httpconn.Refused
		case f.kind == isOdd, f.kind == isConnection && !strings.EqualFold(value, "keep-alive"), classes&inASCII == 0, repeated:
			return httpconn.Declined
		case f.bit == 0:
			if _, repeated := q.http.Header[f.name]; repeated {
				return httpconn.Declined
			}
		}
		if seen |= f.bit; f.kind == isHost {
			q.http.Host = value
			continue
		}
		n := q.used
		q.fields[n] = value
		q.http.Header[f.name] = q.fields[n : n+1 : n+1]
		q.used++
	}
	if q.http.Host == "" {
		return httpconn.Refused
	}
	return httpconn.Answered
}

// readLine reads the request line: GET or HEAD, a path with or without a query, and HTTP/1.1.
func (q *request) readLine(line []byte, x *syntax) httpconn.Outcome {
	target, ok := bytes.CutSuffix(line, []byte(" HTTP/1.1"))
	if !ok {
		return httpconn.Refused
	}
	switch {
	case bytes.HasPrefix(target, []byte("GET ")):
		q.http.Method, target = http.MethodGet, target[4:]
	case bytes.HasPrefix(target, []byte("HEAD ")):
		q.http.Method, target = http.MethodHead, target[5:]
	default:
		return httpconn.Refused
	}
	path, query, hasQuery := bytes.Cut(target, []byte{'?'})
	if len(path) == 0 || path[0] != '/' || len(path) > 1 && path[1] == '/' || hasQuery && len(query) == 0 {
		return httpconn.Declined
	}
	for _, c := range path {
		if x.classes[c]&inPath == 0 {
			return httpconn.Declined
		}
	}
	for _, c := range query {
		if x.classes[c]&inQuery == 0 {
			return httpconn.Declined
		}
	}
	q.http.RequestURI = text(target)
	q.url.Path, q.url.RawQuery = text(path), text(query)
	return httpconn.Answered
}

// cutField returns the name and the value of a field line, without white space around the value, and the
// classes that all characters of the value are in; 0 if the line is invalid.
func (x *syntax) cutField(line []byte) (name []byte, value string, classes uint8) {
	colon := bytes.IndexByte(line, ':')
	if colon < 1 {
		return nil, "", 0
	}
	name = line[:colon]
	for _, c := range name {
		if x.classes[c]&inName == 0 {
			return nil, "", 0
		}
	}
	rest := line[colon+1:]
	for len(rest) > 0 && (rest[0] == ' ' || rest[0] == '\t') {
		rest = rest[1:]
	}
	for len(rest) > 0 && (rest[len(rest)-1] == ' ' || rest[len(rest)-1] == '\t') {
		rest = rest[:len(rest)-1]
	}
	classes = inValue | inASCII
	for _, c := range afterPrintable(rest) {
		classes &= x.classes[c]
	}
	if classes&inValue == 0 {
		return nil, "", 0
	}
	return name, text(rest), classes
}

// afterPrintable returns what follows groups of eight printable characters of ASCII, of which most values are.
func afterPrintable(value []byte) []byte {
	const each = 0x0101010101010101
	for len(value) >= 8 {
		v := binary.LittleEndian.Uint64(value)
		// One of these has a high bit if a byte is 0x80 or more, is DEL, or is less than a space.
		if (v|(v+each)|(v-' '*each))&(0x80*each) != 0 {
			break
		}
		value = value[8:]
	}
	return value
}

// Where a character may be in a head.
const (
	inName  = 1 << iota // token (RFC 9110, section 5.6.2)
	inValue             // field value (section 5.5), and obs-text
	inPath              // path: what net/url has no need to encode
	inQuery             // query
	inASCII             // anywhere but in obs-text
)

// A kind is what a field means for the question who answers its request.
type kind uint8

const (
	isPlain kind = iota
	isHost
	isConnection
	isFraming // where the request ends depends on it
	isOdd     // net/http does something about it
)

// A syntax is what is known of heads. It is immutable.
type syntax struct {
	classes [256]uint8 // where each character may be
	// fields are what clients usually send, and fields of a kind, by the name as it is sent, at its
	// bucket: look-ups in a map took a third of the time of a head.
	fields [256][]spelling
	known  uint // the number of fields
}

// A spelling is the name of a field as clients send it.
type spelling struct {
	name string
	field
}

type field struct {
	name string // canonical
	kind kind
	bit  uint64 // of this field alone; 0 if it is not known
}

// bucket returns where the spellings of a name are: with these factors most have one for themselves.
func bucket(name []byte) uint8 {
	return uint8(len(name)) + 124*name[0] + 29*name[len(name)-1] //nolint:gosec // any number will do
}

func newSyntax() *syntax {
	x := &syntax{}
	for c := range x.classes {
		switch {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
			x.classes[c] = inName | inValue | inPath | inQuery
		case c == '\t', c == ' ', c >= 0x80:
			x.classes[c] = inValue
		case c > ' ' && c < 0x7f:
			x.classes[c] = inValue
			if strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0 {
				x.classes[c] |= inName
			}
			if strings.IndexByte("-_.~$&+,/:;=@", byte(c)) >= 0 {
				x.classes[c] |= inPath
			}
			if strings.IndexByte("#\"<>\\^`{|}", byte(c)) < 0 {
				x.classes[c] |= inQuery
			}
		}
		if c < 0x80 {
			x.classes[c] |= inASCII
		}
	}
	x.add(isHost, "Host")
	x.add(isConnection, "Connection")
	x.add(isFraming, "Content-Length", "Transfer-Encoding", "Trailer")
	x.add(isOdd, "Upgrade", "Expect", "Pragma", "HTTP2-Settings")
	x.add(isPlain, "Accept", "Accept-Encoding", "Accept-Language", "Cache-Control", "Cookie", "DNT", "If-Modified-Since", "If-None-Match",
		"Origin", "Priority", "Range", "Referer", "Save-Data", "Sec-CH-UA", "Sec-CH-UA-Mobile", "Sec-CH-UA-Platform", "Sec-Fetch-Dest", "Sec-Fetch-Mode", "Sec-Fetch-Site",
		"Sec-Fetch-User", "Sec-GPC", "Sec-Purpose", "Traceparent", "Tracestate", "Upgrade-Insecure-Requests", "User-Agent", "Via", "X-Forwarded-For",
		"X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Proto", "X-Real-IP", "X-Request-ID", "X-Requested-With")
	return x
}

func (x *syntax) add(kind kind, names ...string) {
	for _, name := range names {
		f := field{textproto.CanonicalMIMEHeaderKey(name), kind, 1 << x.known}
		x.known++
		for _, sent := range []string{name, f.name, strings.ToLower(name)} {
			if b := []byte(sent); x.find(b) == nil {
				x.fields[bucket(b)] = append(x.fields[bucket(b)], spelling{sent, f})
			}
		}
	}
}

// field returns the field of a name. It allocates for some names that are unusual.
func (x *syntax) field(name []byte) field {
	if f := x.find(name); f != nil {
		return *f
	}
	canonical := textproto.CanonicalMIMEHeaderKey(text(name))
	if f := x.find([]byte(canonical)); f != nil {
		return *f
	}
	return field{name: canonical}
}

// find returns the field of a name that is spelled in a usual way; nil for others.
func (x *syntax) find(name []byte) *field {
	in := x.fields[bucket(name)]
	for i := range in {
		if in[i].name == string(name) {
			return &in[i].field
		}
	}
	return nil
}
