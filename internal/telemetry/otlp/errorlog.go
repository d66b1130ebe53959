package otlp

import (
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// errorPause is how long after an error further ones are only counted.
const errorPause = time.Minute

// An ErrorLog logs errors of a library, at most one each minute. It is safe for concurrent use.
type ErrorLog struct {
	log  *slog.Logger
	text string

	mu      sync.Mutex
	said    time.Time // guarded by mu
	dropped int       // guarded by mu: since then
}

// NewErrorLog returns an ErrorLog whose lines have a text.
func NewErrorLog(log *slog.Logger, text string) *ErrorLog { return &ErrorLog{log: log, text: text} }

// Println implements promhttp.Logger.
func (l *ErrorLog) Println(v ...any) { l.print(fmt.Sprint(v...)) }

// Handle implements otel.ErrorHandler.
func (l *ErrorLog) Handle(err error) { l.print(err.Error()) }

func (l *ErrorLog) print(problem string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.said.IsZero() && time.Since(l.said) < errorPause {
		l.dropped++
		return
	}
	l.log.Warn(l.text, "error", problem, "dropped", l.dropped)
	l.said, l.dropped = time.Now(), 0
}
