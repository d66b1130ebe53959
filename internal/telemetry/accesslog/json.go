package accesslog

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-faster/jx"
)

// appendJSON appends a line as a JSON object. Durations are in seconds, sizes in bytes.
func appendJSON(b []byte, l *line) []byte {
	o := &l.json
	o.w.Buf = append(b, `{"time":"`...)
	o.w.Buf = append(l.Start.UTC().AppendFormat(o.w.Buf, "2006-01-02T15:04:05.000000Z"), '"')
	o.text("client.address", l.client)
	o.text("http.request.method", l.method)
	o.text("url.scheme", l.scheme)
	o.text("server.address", l.host)
	o.text("server.port", l.port)
	o.text("url.path", l.path)
	o.text("url.query", l.query)
	o.text("network.protocol.version", l.protocol)
	o.text("http.route", cut(l.Route, maxWord))
	o.number("http.response.status_code", int64(l.Status))
	o.number("http.response.body.size", l.Bytes)
	o.seconds("http.server.request.duration", l.Duration)
	o.text("user_agent.original", l.agent)
	o.text("http.request.header.referer", l.referer)
	o.text("isr.cache", l.cache)
	if l.Detail != "" {
		o.text("isr.reason", cut(l.Detail, maxWord))
	}
	o.true("isr.stored", l.Stored)
	o.true("isr.collapsed", l.Collapsed)
	if l.ForwardStatus > 0 {
		o.number("isr.forward_status", int64(l.ForwardStatus))
	}
	if l.Generation != "" {
		o.number("isr.age", int64(l.Age/time.Second))
		o.text("isr.generation", cut(l.Generation, maxWord))
	}
	o.positive("isr.first_byte", l.FirstByte)
	o.positive("isr.render", l.Render)
	o.positive("isr.lease_wait", l.LeaseWait)
	o.true("isr.aborted", l.Aborted)
	o.text("isr.request_id", cut(l.RequestID, maxWord))
	o.text("trace_id", cut(l.TraceID, maxWord))
	if l.rate > 1 {
		o.number("isr.sample_rate", int64(l.rate))
	}
	return append(o.w.Buf, '}')
}

// An object is a JSON object that has begun with a field. Names need no escaping.
type object struct{ w jx.Writer }

func (o *object) name(name string) {
	o.w.Buf = append(append(append(o.w.Buf, `,"`...), name...), `":`...)
}

// text adds a text, unless it is empty.
func (o *object) text(name, value string) {
	if value == "" {
		return
	}
	if strings.ContainsFunc(value, unprintable) {
		value = strings.Map(printable, value)
	}
	o.name(name)
	o.w.Str(value)
}

// unprintable reports whether a character is replaced: invalid UTF-8, which jx would write as it
// is, and what can change how a terminal shows a line, such as U+009B or U+202E. jx escapes
// control characters of ASCII.
func unprintable(r rune) bool {
	return r > '~' && (r == utf8.RuneError || !unicode.IsPrint(r))
}

func printable(r rune) rune {
	if unprintable(r) {
		return unicode.ReplacementChar
	}
	return r
}

func (o *object) number(name string, n int64) {
	o.name(name)
	o.w.Buf = strconv.AppendInt(o.w.Buf, n, 10)
}

// true adds a boolean that is true.
func (o *object) true(name string, value bool) {
	if value {
		o.name(name)
		o.w.Buf = append(o.w.Buf, "true"...)
	}
}

// positive adds a duration, unless it is zero.
func (o *object) positive(name string, d time.Duration) {
	if d > 0 {
		o.seconds(name, d)
	}
}

func (o *object) seconds(name string, d time.Duration) {
	o.name(name)
	o.w.Buf = appendSeconds(o.w.Buf, d)
}

// appendSeconds appends a duration in seconds, in microseconds' precision: 1.500000.
func appendSeconds(b []byte, d time.Duration) []byte {
	micros := max(d, 0).Microseconds()
	b = append(strconv.AppendInt(b, micros/1e6, 10), '.')
	for unit := int64(1e5); unit > 0; unit /= 10 {
		b = append(b, '0'+byte(micros/unit%10))
	}
	return b
}
