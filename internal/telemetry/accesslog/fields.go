package accesslog

import (
	"fmt"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

const (
	// MaxFields bounds the fields of a line.
	MaxFields = 64
	// maxHeaderName and maxHeaderValue bound a header that a field names, in bytes. Longer values are cut off.
	maxHeaderName  = 64
	maxHeaderValue = 512
)

// A kind is what a value is.
type kind uint8

const (
	isText kind = iota
	isNumber
	isSeconds // n is in nanoseconds
	isTrue    // n is 1, or 0 for false
	isTime    // which the line has
)

// A value is the value of a field in one line. It is absent if it is empty, or a zero that lines leave out.
type value struct {
	text   string
	n      int64
	absent bool
}

// A field is a part of a line.
type field struct {
	name, short string // in JSON; in text, in filters and in the configuration
	kind        kind
	of          func(*line) value
}

func textField(name, short string, of func(*line) string) field {
	return field{name, short, isText, func(l *line) value {
		text := of(l)
		return value{text: text, absent: text == ""}
	}}
}

func numberField(name, short string, of func(*line) (n int64, absent bool)) field {
	return field{name, short, isNumber, func(l *line) value {
		n, absent := of(l)
		return value{n: n, absent: absent}
	}}
}

func secondsField(name, short string, always bool, of func(*line) time.Duration) field {
	return field{name, short, isSeconds, func(l *line) value {
		d := max(of(l), 0)
		return value{n: int64(d), absent: d == 0 && !always}
	}}
}

func trueField(name, short string, of func(*line) bool) field {
	return field{name, short, isTrue, func(l *line) value {
		if of(l) {
			return value{n: 1}
		}
		return value{absent: true}
	}}
}

// standardFields returns the fields that lines have if the configuration names none, in their order.
func standardFields() []field {
	return []field{
		{"time", "time", isTime, func(*line) value { return value{} }},
		textField("client.address", "client", func(l *line) string { return l.client }),
		textField("http.request.method", "method", func(l *line) string { return l.method }),
		textField("url.scheme", "scheme", func(l *line) string { return l.scheme }),
		textField("server.address", "host", func(l *line) string { return l.host }),
		textField("server.port", "port", func(l *line) string { return l.port }),
		textField("url.path", "path", func(l *line) string { return l.path }),
		textField("url.query", "query", func(l *line) string { return l.query }),
		textField("network.protocol.version", "protocol", func(l *line) string { return l.protocol }),
		textField("http.route", "route", func(l *line) string { return cut(l.Route, maxWord) }),
		numberField("http.response.status_code", "status", func(l *line) (int64, bool) { return int64(l.Status), false }),
		numberField("http.response.body.size", "bytes", func(l *line) (int64, bool) { return l.Bytes, false }),
		secondsField("http.server.request.duration", "duration", true, func(l *line) time.Duration { return l.Duration }),
		textField("user_agent.original", "agent", func(l *line) string { return l.agent }),
		textField("http.request.header.referer", "referer", func(l *line) string { return l.referer }),
		textField("isr.cache", "cache", func(l *line) string { return l.cache }),
		textField("isr.reason", "reason", func(l *line) string { return cut(l.Detail, maxWord) }),
		trueField("isr.stored", "stored", func(l *line) bool { return l.Stored }),
		trueField("isr.collapsed", "collapsed", func(l *line) bool { return l.Collapsed }),
		numberField("isr.forward_status", "forward_status", func(l *line) (int64, bool) { return int64(l.ForwardStatus), l.ForwardStatus <= 0 }),
		numberField("isr.age", "age", func(l *line) (int64, bool) { return int64(l.Age / time.Second), l.Generation == "" }),
		textField("isr.generation", "generation", func(l *line) string { return cut(l.Generation, maxWord) }),
		secondsField("isr.first_byte", "first_byte", false, func(l *line) time.Duration { return l.FirstByte }),
		secondsField("isr.render", "render", false, func(l *line) time.Duration { return l.Render }),
		secondsField("isr.lease_wait", "lease_wait", false, func(l *line) time.Duration { return l.LeaseWait }),
		trueField("isr.aborted", "aborted", func(l *line) bool { return l.Aborted }),
		textField("isr.request_id", "request_id", func(l *line) string { return cut(l.RequestID, maxWord) }),
		textField("trace_id", "trace_id", func(l *line) string { return cut(l.TraceID, maxWord) }),
		numberField("isr.sample_rate", "sample_rate", func(l *line) (int64, bool) { return int64(l.rate), l.rate <= 1 }),
	}
}

// CheckFields returns an error for a list of names that [Config.Fields] cannot be.
func CheckFields(names []string) error {
	_, err := fieldsOf(names)
	return err
}

// fieldsOf returns the fields of names; the standard ones without names.
func fieldsOf(names []string) ([]field, error) {
	standard := standardFields()
	if len(names) == 0 {
		return standard, nil
	}
	if len(names) > MaxFields {
		return nil, fmt.Errorf("has %d fields; expected at most %d", len(names), MaxFields)
	}
	var fields []field
	for _, name := range names {
		f, err := fieldOf(standard, name)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(fields, func(other field) bool { return other.name == f.name }) {
			return nil, fmt.Errorf("has the field %s twice; remove one of them", name)
		}
		fields = append(fields, f)
	}
	return fields, nil
}

// fieldOf returns the field of a name: a standard one by either of its names, or a header.
func fieldOf(standard []field, name string) (field, error) {
	for _, prefix := range []struct{ long, short string }{{"http.request.header.", "request."}, {"http.response.header.", "response."}} {
		header, found := strings.CutPrefix(name, prefix.long)
		if !found {
			header, found = strings.CutPrefix(name, prefix.short)
		}
		if found {
			return headerField(standard, prefix.long, prefix.short, strings.ToLower(header))
		}
	}
	for _, f := range standard {
		if f.name == name || f.short == name {
			return f, nil
		}
	}
	short := make([]string, len(standard))
	for i, f := range standard {
		short[i] = f.short
	}
	return field{}, fmt.Errorf("has no field %.80q; expected request.HEADER, response.HEADER, or one of %s", name, strings.Join(short, ", "))
}

// headerField returns the field of a header. A log of credentials would let its readers act as visitors.
func headerField(standard []field, long, short, header string) (field, error) {
	switch name := short + header; {
	case !httpguts.ValidHeaderFieldName(header) || len(header) > maxHeaderName:
		return field{}, fmt.Errorf("has no field %.80q; expected the name of a header after %q, of at most %d bytes", name, short, maxHeaderName)
	case isCredential(header):
		return field{}, fmt.Errorf("cannot have %s: readers of the log could act as visitors with its value; remove it", name)
	case name == "request.referer" || name == "request.user-agent":
		return fieldOf(standard, map[string]string{"request.referer": "referer", "request.user-agent": "agent"}[name])
	}
	canonical := textproto.CanonicalMIMEHeaderKey(header)
	if short == "request." {
		return textField(long+header, short+header, func(l *line) string { return cut(first(l.Request.Header[canonical]), maxHeaderValue) }), nil
	}
	return textField(long+header, short+header, func(l *line) string { return cut(l.ResponseHeader(canonical), maxHeaderValue) }), nil
}

// isCredential reports whether the value of a header, in lower case, lets its reader act as a visitor.
func isCredential(header string) bool {
	switch header {
	case "cookie", "set-cookie", "authorization", "proxy-authorization":
		return true
	}
	return false
}
