package telemetry

import (
	"bytes"
	"net/http"
	"net/textproto"
	"time"

	"github.com/facetheory/isr"
)

// An Exchange is one request and its answer.
type Exchange struct {
	isr.Report
	// Request is the request as it arrived, after the edge has resolved client and host.
	// It is valid until Done returns. With traces, its context has the span of the request.
	Request *http.Request
	// Start is when the request arrived. Duration is how long it took to answer it, and
	// FirstByte how long until the final header was written; zero if there was none. A hit of up to
	// 32 KiB is written at once, and has the same for both.
	Start     time.Time
	Duration  time.Duration
	FirstByte time.Duration
	// Status is the final status that was sent: 101 for an upgrade, 0 if there was none.
	Status int
	// Bytes is the size of the body that was written, without the framing of HTTP. What an
	// upgraded connection carries is not counted.
	Bytes int64
	// Aborted: the handler panicked, as with http.ErrAbortHandler when an origin breaks
	// off. The response is incomplete, and the connection or the stream was closed.
	Aborted bool
	// RequestID is the id of the request; empty if it has none.
	RequestID string
	// TraceID is the id of its trace, in hexadecimal; empty unless it is sampled.
	TraceID string
	// Head is the header of a hit that was answered without [Recorder.Serve], from its status line to its empty line. It is
	// valid until Done returns.
	Head []byte

	header http.Header // of the response that a handler has begun; nil if there is none
}

// ResponseHeader returns the first value of a field of the response, by its canonical name; empty if there is none. It is
// what the handler has set: fields that the server adds, such as Date, may be missing. It must be called before Done
// returns, and does not allocate unless the response is a hit with Head.
func (e *Exchange) ResponseHeader(name string) string {
	if values := e.header[name]; len(values) > 0 {
		return values[0]
	}
	for rest := e.Head; len(rest) > 0; {
		line, after, _ := bytes.Cut(rest, []byte("\r\n"))
		field, value, found := bytes.Cut(line, []byte(":"))
		if found && len(field) == len(name) && textproto.CanonicalMIMEHeaderKey(string(field)) == name {
			return string(bytes.TrimSpace(value))
		}
		rest = after
	}
	return ""
}

// A Sink receives each request when it has been answered.
type Sink interface {
	// Done must not keep the Exchange, and must not block. It is on the way of every hit, and
	// must not allocate for them. It is called concurrently.
	Done(*Exchange)
}
