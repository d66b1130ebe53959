package fastpath

import (
	"cmp"
	"net/http"
	"sync"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/httpconn"
	"github.com/facetheory/isr/internal/telemetry"
)

// A Config configures a [Responder].
type Config struct {
	// Handler returns the handler that the server has now. Requests for one that is no
	// [isr.HitHandler] are not answered here. It is called for each request.
	Handler func() http.Handler
	// Recorder is told of the hits. It must be the one that the handler has, too.
	Recorder *telemetry.Recorder
	// Counter is told when a hit begins to be answered, and when it has been.
	Counter Counter
}

// A Counter counts hits. It is safe for concurrent use.
type Counter interface {
	Begin()
	End()
}

// A Responder answers hits. It is safe for concurrent use.
type Responder struct {
	cfg      Config
	syntax   *syntax
	requests sync.Pool // of *request
}

var _ httpconn.Responder = (*Responder)(nil)

// New returns a responder.
func New(cfg Config) *Responder {
	return &Responder{cfg: cfg, syntax: newSyntax(), requests: sync.Pool{New: func() any { return newRequest() }}}
}

// Respond implements [httpconn.Responder].
func (rs *Responder) Respond(client string, head []byte, send func(header, body []byte) (int64, error)) httpconn.Outcome {
	q := rs.requests.Get().(*request)
	outcome := rs.respond(q, client, head, send)
	q.clear()
	rs.requests.Put(q) // not after a panic: then q is garbage
	return outcome
}

func (rs *Responder) respond(q *request, client string, head []byte, send func(header, body []byte) (int64, error)) httpconn.Outcome {
	start := time.Now()
	if outcome := q.read(head, rs.syntax); outcome != httpconn.Answered {
		return outcome
	}
	q.http.RemoteAddr = client
	if !isr.LookupIn(rs.cfg.Handler(), &q.http, &q.hit) {
		return httpconn.Declined
	}
	rs.cfg.Counter.Begin()
	defer rs.cfg.Counter.End()
	x := &q.exchange
	x.Report, x.Request, x.Status, x.Start = q.hit.Report, q.hit.Request, q.hit.Status, start
	if len(q.hit.Body) > telemetry.AtOnce {
		x.FirstByte = time.Since(start)
	}
	sent, err := send(q.hit.Header, q.hit.Body)
	x.Duration = time.Since(start)
	x.FirstByte = cmp.Or(x.FirstByte, x.Duration)
	x.Bytes = sent
	if err == nil || sent > int64(len(q.hit.Header)) {
		x.Bytes -= int64(len(q.hit.Header))
	} else {
		x.Bytes = 0
	}
	rs.cfg.Recorder.Hit(x)
	return httpconn.Answered
}
