package fill

import (
	"log/slog"
	"sync"
	"time"

	"github.com/facetheory/isr/store"
)

// summaryPause is for how long the log sums up the pages that were stored.
const summaryPause = time.Minute

// A renderLog writes a line at level debug for each page that is stored, and one at level info for
// all of a minute: a line for each would be most of the log of a busy site. It is safe for
// concurrent use.
type renderLog struct {
	logger *slog.Logger

	mu      sync.Mutex
	timer   *time.Timer // guarded by mu: writes the summary; nil if nothing was stored since the last one
	summary renderSummary
}

// A renderSummary sums up the pages that were stored since a moment.
type renderSummary struct {
	rendered, validated int
	bytes               int64
	took                time.Duration // all renders together
	slowest             time.Duration
	slowestKey          string
}

// stored notes a page that was stored. validated: its origin answered that the stored copy is valid.
func (l *renderLog) stored(k store.Key, e *store.Entry, validated bool, took time.Duration) {
	did, key := "rendered", k.String()
	if validated {
		did = "validated"
	}
	l.logger.Debug(did, "key", key, "status", e.Status, "bytes", e.Length, "took", took.Round(time.Millisecond), "fresh", e.Revalidate)
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.summary
	if validated {
		s.validated++
	} else {
		s.rendered++
		s.bytes += e.Length
	}
	s.took += took
	if took >= s.slowest {
		s.slowest, s.slowestKey = took, key
	}
	if l.timer == nil {
		l.timer = time.AfterFunc(summaryPause, l.write)
	}
}

// LogSummary logs the pages that were stored since the last summary, before the process ends.
func (e *Engine) LogSummary() { e.log.write() }

// write writes the summary, unless nothing was stored since the last one.
func (l *renderLog) write() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer == nil {
		return
	}
	l.timer.Stop()
	l.timer = nil
	s := l.summary
	l.summary = renderSummary{}
	mean := s.took / time.Duration(s.rendered+s.validated)
	l.logger.Info("rendered pages", "rendered", s.rendered, "validated", s.validated, "bytes", s.bytes,
		"mean", mean.Round(time.Millisecond), "slowest", s.slowest.Round(time.Millisecond), "slowest_key", s.slowestKey)
}
