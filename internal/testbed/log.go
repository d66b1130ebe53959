package testbed

import (
	"bytes"
	"sync"
)

// A Log may be read while it is written. The zero value is empty.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns what was written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
