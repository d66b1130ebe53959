package telemetry

import (
	"net/http"
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
}

// A Sink receives each request when it has been answered.
type Sink interface {
	// Done must not keep the Exchange, and must not block. It is on the way of every hit, and
	// must not allocate for them. It is called concurrently.
	Done(*Exchange)
}
