package fastpath

import (
	"cmp"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/httpconn"
	"github.com/facetheory/isr/internal/telemetry"
)

// A Config configures a [Responder].
type Config struct {
	// Handler returns the handler that the server has now. If it is no [isr.HitHandler], it serves
	// hits like other requests. It is called for each request.
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

// A Responder answers hits, and has other requests served. It is safe for concurrent use.
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
func (rs *Responder) Respond(c httpconn.Client, head []byte) httpconn.Outcome {
	h, q := rs.cfg.Handler(), rs.requests.Get().(*request)
	r, outcome := rs.respond(q, c, head, h)
	q.clear()
	rs.requests.Put(q) // not after a panic: then q is garbage
	if r != nil {
		c.Serve(h, r)
	}
	return outcome
}

// respond answers a hit. It returns the request if the handler is to serve it.
func (rs *Responder) respond(q *request, c httpconn.Client, head []byte, h http.Handler) (*http.Request, httpconn.Outcome) {
	start := time.Now()
	if outcome := q.read(head, rs.syntax); outcome != httpconn.Answered {
		return nil, outcome
	}
	q.http.RemoteAddr = c.Address()
	switch {
	case isr.LookupIn(h, &q.http, &q.hit):
		rs.send(c, q, start)
		return nil, httpconn.Answered
	case !httpguts.ValidHostHeader(q.http.Host):
		return nil, httpconn.Declined // net/http refuses it
	}
	q.clear() // Lookup may have changed the header
	r := q.detach(head, rs.syntax)
	r.RemoteAddr = c.Address()
	return r, httpconn.Answered
}

// send sends a hit, and reports it.
func (rs *Responder) send(c httpconn.Client, q *request, start time.Time) {
	rs.cfg.Counter.Begin()
	defer rs.cfg.Counter.End()
	x := &q.exchange
	x.Report, x.Request, x.Status, x.Head, x.Start = q.hit.Report, q.hit.Request, q.hit.Status, q.hit.Header, start
	if len(q.hit.Body) > telemetry.AtOnce {
		x.FirstByte = time.Since(start)
	}
	sent, err := c.Send(q.hit.Header, q.hit.Body)
	q.hit.Release()
	x.Duration = time.Since(start)
	x.FirstByte = cmp.Or(x.FirstByte, x.Duration)
	x.Bytes = sent
	if err == nil || sent > int64(len(q.hit.Header)) {
		x.Bytes -= int64(len(q.hit.Header))
	} else {
		x.Bytes = 0
	}
	rs.cfg.Recorder.Hit(x)
}
