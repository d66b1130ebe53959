package telemetry

import (
	"cmp"
	"net/http"
	"sync"
	"time"
)

// A RecorderConfig configures a [Recorder].
type RecorderConfig struct {
	Sinks      []Sink
	RequestIDs RequestIDs
	// IdentifyHits reports whether sinks get the ids of all requests now. Otherwise hits whose response does not
	// name one have none, which saves making it. Nil: they do not.
	IdentifyHits func() bool
}

// A Recorder reports requests to sinks. It is safe for concurrent use.
type Recorder struct {
	cfg     RecorderConfig
	ids     idSource
	writers sync.Pool // of *writer
}

// NewRecorder returns a recorder.
func NewRecorder(cfg RecorderConfig) *Recorder {
	cfg.RequestIDs = cmp.Or(cfg.RequestIDs, RequestIDsOff)
	if cfg.IdentifyHits == nil {
		cfg.IdentifyHits = func() bool { return false }
	}
	return &Recorder{cfg: cfg, writers: sync.Pool{New: func() any { return new(writer) }}}
}

// Handler serves next, and reports each exchange to the sinks.
func Handler(next http.Handler, sinks ...Sink) http.Handler {
	return NewRecorder(RecorderConfig{Sinks: sinks}).Handler(next)
}

// Handler serves next, and reports each exchange.
func (rec *Recorder) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { rec.Serve(w, r, next) })
}

// Serve answers a request by next, and reports it to the sinks, also if next panics. The
// writer that next gets is an isr.Reporter, is isr.Identified, and unwraps to w.
func (rec *Recorder) Serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	tw := rec.writers.Get().(*writer)
	tw.inner, tw.exchange.Request, tw.exchange.Start = w, r, time.Now()
	if rec.cfg.RequestIDs != RequestIDsOff {
		tw.recorder = rec
	}
	returned := false
	defer func() { rec.finish(tw, returned) }() // not by recover, which would lose the stack
	next.ServeHTTP(tw, r)
	returned = true
}

// finish reports the exchange of a writer whose handler has returned, or panicked.
func (rec *Recorder) finish(w *writer, returned bool) {
	if returned && !w.hijacked {
		w.begin(http.StatusOK) // sent by the server if nothing was written
	}
	w.done.Store(true)
	e := &w.exchange
	if !e.Hit || rec.cfg.IdentifyHits() {
		w.RequestID()
	}
	e.Aborted = !returned
	e.Duration = time.Since(e.Start)
	if e.Status != 0 && e.FirstByte == 0 {
		e.FirstByte = e.Duration
	}
	for _, s := range rec.cfg.Sinks {
		s.Done(e)
	}
	if !returned || !e.Hit {
		// A goroutine of a proxy may outlive the handler, and must not find the response
		// to another request in its writer.
		return
	}
	*w = writer{}
	rec.writers.Put(w)
}
