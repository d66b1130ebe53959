package logreader

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Methods that logs repeat are not copied.
func methodOf(b []byte) string {
	switch string(b) {
	case "GET":
		return "GET"
	case "HEAD":
		return "HEAD"
	case "POST":
		return "POST"
	}
	return string(b)
}

// A scanner splits a line into fields. A field is a word, or text in quotes or in brackets.
type scanner struct{ rest []byte }

// next returns the next field, without its quotes or brackets. Escapes in quotes stay as they are.
func (s *scanner) next() (field []byte, ok bool) {
	s.rest = bytes.TrimLeft(s.rest, " ")
	if len(s.rest) == 0 {
		return nil, false
	}
	end := byte(' ')
	switch s.rest[0] {
	case '"':
		end = '"'
	case '[':
		end = ']'
	}
	if end == ' ' {
		at := bytes.IndexByte(s.rest, ' ')
		if at < 0 {
			at = len(s.rest)
		}
		field, s.rest = s.rest[:at], s.rest[at:]
		return field, true
	}
	at := closing(s.rest, end)
	if at < 0 {
		return nil, false
	}
	field, s.rest = s.rest[1:at], s.rest[at+1:]
	return field, true
}

// closing returns where the first field ends that begins with a quote or a bracket: at the first end without a
// backslash before it that is not escaped itself; -1 if it does not end.
func closing(text []byte, end byte) int {
	next := func(from int) int {
		if at := bytes.IndexByte(text[from:], end); at >= 0 {
			return from + at
		}
		return -1
	}
	from := 1
	at := next(from)
	for at >= 0 {
		escape := bytes.IndexByte(text[from:at], '\\')
		if escape < 0 {
			return at
		}
		if from += escape + 2; from > at {
			at = next(min(from, len(text)))
		}
	}
	return -1
}

var (
	errCombined = errors.New(`expected ADDRESS - USER [TIME] "METHOD TARGET HTTP/VERSION" STATUS BYTES`)
	errALB      = errors.New("expected the fields of an Application Load Balancer")
	errRequest  = errors.New(`expected "METHOD TARGET HTTP/VERSION"`)
)

// combined reads the Common and the Combined Log Format of Apache and nginx, with or without a host before
// it, and fields behind it, of which host=NAME and duration=SECONDS, or one more number, are read.
func (r *Reader) combined(line []byte, e *Entry) (result, error) {
	s := scanner{line}
	first, ok := s.next()
	if !ok {
		return skip, errCombined
	}
	at := bytes.IndexByte(s.rest, '[')
	if at < 0 {
		return skip, errCombined
	}
	// vhost_combined: HOST ADDRESS - USER [TIME]
	if bytes.Count(bytes.TrimSpace(s.rest[:at]), []byte(" ")) == 2 {
		e.Host = r.host(first)
	}
	s.rest = s.rest[at:]
	stamp, _ := s.next()
	request, ok := s.next()
	status, _ := s.next()
	size, sized := s.next()
	if !ok || !sized {
		return skip, errCombined
	}
	var err error
	if e.Time, ok = r.stamps.parse(stamp); !ok {
		return skip, errTime
	}
	if e.Status, err = strconv.Atoi(string(status)); err != nil {
		return skip, errStatus
	}
	if e.Bytes, err = strconv.ParseInt(string(size), 10, 64); err != nil && string(size) != "-" {
		return skip, errCombined
	}
	if err := r.setRequest(e, request); err != nil {
		return skip, err
	}
	r.behindCombined(&s, e)
	return entry, nil
}

// behindCombined reads the fields behind the Combined Log Format.
func (r *Reader) behindCombined(s *scanner, e *Entry) {
	for range 2 { // referer and user agent
		if _, ok := s.next(); !ok {
			return
		}
	}
	for range 32 {
		field, ok := s.next()
		if !ok {
			return
		}
		name, value, named := bytes.Cut(field, []byte("="))
		switch {
		case named && string(name) == "host":
			e.Host = r.host(value)
		case named && (string(name) == "duration" || string(name) == "rt" || string(name) == "request_time"):
			e.Took = seconds(value)
		case !named && e.Took == 0 && bytes.IndexByte(field, '.') > 0:
			e.Took = seconds(field)
		}
	}
}

// setRequest sets what a request line tells: METHOD TARGET HTTP/VERSION.
func (r *Reader) setRequest(e *Entry, line []byte) error {
	method, rest, ok := bytes.Cut(line, []byte(" "))
	at := bytes.LastIndexByte(rest, ' ')
	if !ok || at < 0 || !bytes.HasPrefix(rest[at+1:], []byte("HTTP/")) {
		return errRequest
	}
	e.Method = methodOf(method)
	r.setTarget(e, unescaped(rest[:at]))
	return nil
}

// unescaped returns a text with the escapes \xHH, \" and \\ of nginx and Apache replaced by what they stand for.
func unescaped(b []byte) string {
	if bytes.IndexByte(b, '\\') < 0 {
		return string(b)
	}
	var out strings.Builder
	for i := 0; i < len(b); i++ {
		if b[i] == '\\' && i+1 < len(b) {
			if b[i+1] == 'x' && i+3 < len(b) {
				if n, err := strconv.ParseUint(string(b[i+2:i+4]), 16, 8); err == nil {
					out.WriteByte(byte(n))
					i += 3
					continue
				}
			}
			i++
		}
		out.WriteByte(b[i])
	}
	return out.String()
}

// seconds returns a duration in seconds, 0 if it is none.
func seconds(b []byte) time.Duration {
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil {
		return 0
	}
	return durationOf(f)
}

// durationOf returns a number of seconds as a duration, 0 if it is none.
func durationOf(seconds float64) time.Duration {
	if !(seconds > 0 && seconds < 1e6) {
		return 0
	}
	return time.Duration(seconds * float64(time.Second))
}

// alb reads a line of an Application Load Balancer:
//
//	TYPE TIME ELB CLIENT TARGET REQUEST_PROCESSING TARGET_PROCESSING RESPONSE_PROCESSING STATUS TARGET_STATUS RECEIVED SENT "REQUEST" …
func (r *Reader) alb(line []byte, e *Entry) (result, error) {
	s := scanner{line}
	var f [13][]byte
	for i := range f {
		field, ok := s.next()
		if !ok {
			return skip, errALB
		}
		f[i] = field
	}
	switch string(f[0]) {
	case "http", "https", "h2", "grpcs", "ws", "wss":
	default:
		return skip, errALB
	}
	var err error
	if e.Time, err = time.Parse(time.RFC3339Nano, string(f[1])); err != nil {
		return skip, errTime
	}
	if e.Status, err = strconv.Atoi(string(f[8])); err != nil {
		return skip, errStatus
	}
	if e.Bytes, err = strconv.ParseInt(string(f[11]), 10, 64); err != nil {
		return skip, errALB
	}
	for _, part := range f[5:8] {
		e.Took += seconds(part)
	}
	return entry, r.setRequest(e, f[12])
}

// cloudFront reads a standard log of CloudFront: fields with tabs between them, whose names are in a line that
// begins with #Fields.
func (r *Reader) cloudFront(line []byte, e *Entry) (result, error) {
	if line[0] == '#' {
		if names, ok := bytes.CutPrefix(line, []byte("#Fields:")); ok {
			r.columns = make(map[string]int)
			for i, name := range strings.Fields(string(names)) {
				r.columns[name] = i
			}
		}
		return skip, nil
	}
	if r.columns == nil {
		return skip, errors.New("a line that begins with #Fields: was expected before it")
	}
	fields := bytes.Split(line, []byte("\t"))
	get := func(name string) []byte {
		if i, ok := r.columns[name]; ok && i < len(fields) && string(fields[i]) != "-" {
			return fields[i]
		}
		return nil
	}
	var err error
	if e.Time, err = time.Parse("2006-01-02 15:04:05", string(get("date"))+" "+string(get("time"))); err != nil {
		return skip, fmt.Errorf("%w in the fields date and time", errTime)
	}
	if e.Status, err = strconv.Atoi(string(get("sc-status"))); err != nil {
		return skip, errStatus
	}
	e.Method = methodOf(get("cs-method"))
	if e.Host = r.host(get("x-host-header")); e.Host == "" {
		e.Host = r.host(get("cs(Host)"))
	}
	e.Bytes, _ = strconv.ParseInt(string(get("sc-bytes")), 10, 64)
	e.Took = seconds(get("time-taken"))
	e.URI = string(get("cs-uri-stem"))
	if query := get("cs-uri-query"); len(query) > 0 {
		e.URI += "?" + decodedOnce(string(query))
	}
	return entry, nil
}

// decodedOnce undoes that CloudFront encodes the percent signs of a query once more.
func decodedOnce(query string) string {
	if !strings.Contains(query, "%25") {
		return query
	}
	decoded, err := url.PathUnescape(query)
	if err != nil {
		return query
	}
	return decoded
}
