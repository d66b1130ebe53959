package accesslog

import (
	"strconv"
	"time"
)

// appendText appends a line in the Combined Log Format of Apache, with the host and the
// fields of the cache behind as name=value. A missing value is "-".
//
//	192.0.2.7 - - [23/Nov/2026:17:05:00 +0000] "GET /news?page=2 HTTP/1.1" 200 5120 "-" "curl/8" host=example.com cache=hit …
func appendText(b []byte, l *line, _ []field) []byte {
	b = append(escaped(b, l.client), " - - ["...)
	b = l.Start.UTC().AppendFormat(b, "02/Jan/2006:15:04:05 -0700")
	b = append(escaped(append(b, `] "`...), l.method), ' ')
	b = escaped(b, l.path)
	if l.query != "" {
		b = escaped(append(b, '?'), l.query)
	}
	b = append(append(b, " HTTP/"...), l.protocol...)
	b = append(strconv.AppendInt(append(b, `" `...), int64(l.Status), 10), ' ')
	b = strconv.AppendInt(b, l.Bytes, 10)
	b = quoted(append(b, ' '), l.referer)
	b = quoted(append(b, ' '), l.agent)

	b = escaped(append(b, " host="...), l.host)
	b = quoted(append(b, " route="...), cut(l.Route, maxWord))
	b = escaped(append(b, " cache="...), l.cache)
	b = escaped(append(b, " reason="...), cut(l.Detail, maxWord))
	b = append(b, " age="...)
	if l.Generation == "" {
		b = append(b, '-')
	} else {
		b = strconv.AppendInt(b, int64(l.Age/time.Second), 10)
	}
	b = escaped(append(b, " generation="...), cut(l.Generation, maxWord))
	b = appendSeconds(append(b, " duration="...), l.Duration)
	b = appendSeconds(append(b, " render="...), l.Render)
	b = appendSeconds(append(b, " lease_wait="...), l.LeaseWait)
	b = escaped(append(b, " request_id="...), cut(l.RequestID, maxWord))
	b = escaped(append(b, " trace_id="...), cut(l.TraceID, maxWord))
	if l.Aborted {
		b = append(b, " aborted=true"...)
	}
	if l.rate > 1 {
		b = strconv.AppendInt(append(b, " sample_rate="...), int64(l.rate), 10)
	}
	return b
}

// appendPairs appends fields as name=value, by their short names. Texts are in quotes, and an absent value is "-".
func appendPairs(b []byte, l *line, fields []field) []byte {
	for i := range fields {
		f := &fields[i]
		if i > 0 {
			b = append(b, ' ')
		}
		b = append(append(b, f.short...), '=')
		v := f.of(l)
		switch {
		case f.kind == isTime:
			b = l.Start.UTC().AppendFormat(b, timeFormat)
		case v.absent:
			b = append(b, '-')
		case f.kind == isText:
			b = quoted(b, v.text)
		case f.kind == isNumber:
			b = strconv.AppendInt(b, v.n, 10)
		case f.kind == isSeconds:
			b = appendSeconds(b, time.Duration(v.n))
		case f.kind == isTrue:
			b = append(b, "true"...)
		}
	}
	return b
}

// quoted appends a value in quotes.
func quoted(b []byte, s string) []byte {
	b = append(b, '"')
	if s == "" {
		return append(b, `-"`...)
	}
	for i := range len(s) {
		b = appendByte(b, s[i], ' ')
	}
	return append(b, '"')
}

// escaped appends a value without quotes: spaces are escaped too.
func escaped(b []byte, s string) []byte {
	if s == "" {
		return append(b, '-')
	}
	for i := range len(s) {
		b = appendByte(b, s[i], '!')
	}
	return b
}

// appendByte appends a byte from lowest on, and others as \xhh, as Apache does: control
// characters, quotes, backslashes, and all that is not ASCII.
func appendByte(b []byte, c, lowest byte) []byte {
	const hexadecimal = "0123456789abcdef"
	if c >= lowest && c < 0x7f && c != '"' && c != '\\' {
		return append(b, c)
	}
	return append(b, '\\', 'x', hexadecimal[c>>4], hexadecimal[c&15])
}
