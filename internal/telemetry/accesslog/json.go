package accesslog

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-faster/jx"
)

// appendJSON appends a line as a JSON object of fields. Durations are in seconds, sizes in bytes. Absent values are left
// out.
func appendJSON(b []byte, l *line, fields []field) []byte {
	o := &l.json
	o.w.Buf, o.more = append(b, '{'), false
	for i := range fields {
		f := &fields[i]
		v := f.of(l)
		if v.absent {
			continue
		}
		o.name(f.name)
		switch f.kind {
		case isText:
			o.text(v.text)
		case isNumber:
			o.w.Buf = strconv.AppendInt(o.w.Buf, v.n, 10)
		case isSeconds:
			o.w.Buf = appendSeconds(o.w.Buf, time.Duration(v.n))
		case isTrue:
			o.w.Buf = append(o.w.Buf, "true"...)
		case isTime:
			o.w.Buf = append(l.Start.UTC().AppendFormat(append(o.w.Buf, '"'), timeFormat), '"')
		}
	}
	return append(o.w.Buf, '}')
}

// timeFormat is the format of times, in UTC.
const timeFormat = "2006-01-02T15:04:05.000000Z"

// An object is a JSON object. Names need no escaping.
type object struct {
	w    jx.Writer
	more bool // it has a field
}

func (o *object) name(name string) {
	if o.more {
		o.w.Buf = append(o.w.Buf, ',')
	}
	o.more = true
	o.w.Buf = append(append(append(o.w.Buf, '"'), name...), `":`...)
}

// text adds a text.
func (o *object) text(value string) {
	if strings.ContainsFunc(value, unprintable) {
		value = strings.Map(printable, value)
	}
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

// appendSeconds appends a duration in seconds, in microseconds' precision: 1.500000.
func appendSeconds(b []byte, d time.Duration) []byte {
	micros := max(d, 0).Microseconds()
	b = append(strconv.AppendInt(b, micros/1e6, 10), '.')
	for unit := int64(1e5); unit > 0; unit /= 10 {
		b = append(b, '0'+byte(micros/unit%10))
	}
	return b
}
