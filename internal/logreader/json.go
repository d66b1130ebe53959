package logreader

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"
)

var (
	errJSON  = errors.New("a JSON object was expected")
	errCaddy = errors.New("an object with request, ts and status was expected, as Caddy writes it")
)

// A text is a JSON string, number or list of which the first element counts: log formats that people write
// differ in that.
type text []byte

// UnmarshalJSON implements [json.Unmarshaler].
func (t *text) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '"' {
		*t = bytes.Clone(b)
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	*t = text(s)
	return nil
}

// caddyLine has what is read of a line of Caddy.
type caddyLine struct {
	TS       text    `json:"ts"`
	Status   int     `json:"status"`
	Size     int64   `json:"size"`
	Duration float64 `json:"duration"`
	Request  struct {
		Method string `json:"method"`
		Host   string `json:"host"`
		URI    string `json:"uri"`
	} `json:"request"`
	Header map[string][]string `json:"resp_headers"`
}

// caddy reads a line of the access log of Caddy 2.
func (r *Reader) caddy(line []byte, e *Entry) (result, error) {
	if line[0] != '{' || !bytes.Contains(line, []byte(`"request":{`)) && !bytes.Contains(line, []byte(`"request": {`)) {
		return skip, errCaddy
	}
	var got caddyLine
	if err := json.Unmarshal(line, &got); err != nil {
		return skip, errCaddy
	}
	var ok bool
	if e.Time, ok = timeOf(string(got.TS)); !ok {
		return skip, errTime
	}
	e.Method, e.Host, e.Status, e.Bytes = got.Request.Method, r.host([]byte(got.Request.Host)), got.Status, got.Size
	e.Took = durationOf(got.Duration)
	for name, values := range got.Header {
		switch strings.ToLower(name) {
		case "cache-control":
			e.CacheControl = bounded(strings.Join(values, ", "))
		case "set-cookie":
			e.SetsCookie = len(values) > 0
		}
	}
	r.setTarget(e, got.Request.URI)
	return entry, nil
}

// bounded returns a text that is not longer than a field of a header may be.
func bounded(s string) string { return s[:min(len(s), 1024)] }

// jsonNames are the names that fields have in formats that people write with the variables of nginx, in the
// names of OpenTelemetry as isr writes them, and in other common ones, the preferred first.
type jsonNames struct{ time, method, request, uri, query, host, status, bytes, took, cacheControl []string }

func namesOfJSON() *jsonNames {
	return &jsonNames{
		time:         []string{"msec", "time_iso8601", "time_local", "@timestamp", "timestamp", "time", "ts"},
		method:       []string{"request_method", "http.request.method", "method"},
		request:      []string{"request"},
		uri:          []string{"request_uri", "url.path", "uri", "url", "path"},
		query:        []string{"url.query"},
		host:         []string{"http_host", "host", "server.address", "server_name", "vhost"},
		status:       []string{"status", "http.response.status_code", "status_code", "response_status"},
		bytes:        []string{"body_bytes_sent", "http.response.body.size", "bytes_sent", "bytes", "size"},
		took:         []string{"request_time", "http.server.request.duration", "duration", "upstream_response_time"},
		cacheControl: []string{"sent_http_cache_control", "upstream_http_cache_control"},
	}
}

// json reads a JSON object with the fields that a log_format of nginx names, or that isr writes.
func (r *Reader) json(line []byte, e *Entry) (result, error) {
	if line[0] != '{' {
		return skip, errJSON
	}
	var fields map[string]text
	if err := json.Unmarshal(line, &fields); err != nil {
		return skip, errJSON
	}
	get := func(names []string) string {
		for _, name := range names {
			if value := fields[name]; len(value) > 0 && string(value) != "-" && string(value) != "null" {
				return string(value)
			}
		}
		return ""
	}
	if r.names == nil {
		r.names = namesOfJSON()
	}
	names := r.names
	var ok bool
	if e.Time, ok = timeOf(get(names.time)); !ok {
		return skip, errTime
	}
	var err error
	if e.Status, err = strconv.Atoi(get(names.status)); err != nil {
		return skip, errStatus
	}
	e.Host = r.host([]byte(get(names.host)))
	e.Bytes, _ = strconv.ParseInt(get(names.bytes), 10, 64)
	e.Took = seconds([]byte(get(names.took)))
	e.CacheControl = bounded(get(names.cacheControl))
	if method, uri := get(names.method), get(names.uri); method != "" && uri != "" {
		if query := get(names.query); query != "" {
			uri += "?" + query
		}
		e.Method = method
		r.setTarget(e, uri)
		return entry, nil
	}
	return entry, r.setRequest(e, []byte(get(names.request)))
}

// timeOf parses a time in one of the forms that logs have.
func timeOf(s string) (time.Time, bool) {
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		if f > 1e11 { // milliseconds
			f /= 1e3
		}
		if !(f > 0 && f < 1e10) {
			return time.Time{}, false
		}
		return time.UnixMicro(int64(f * 1e6)).UTC(), true
	}
	for _, layout := range []string{time.RFC3339Nano, "02/Jan/2006:15:04:05 -0700", "2006-01-02T15:04:05.999999999-0700", "2006/01/02 15:04:05", "2006-01-02 15:04:05"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}
