package simulator

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"sync"
	"time"
)

// A trace is the history of a world, one line per event. Random texts (tokens, generation ids) are
// numbered in order of appearance, so that the trace does not depend on their values.
type trace struct {
	lines []string
	sum   hash.Hash

	mu    sync.Mutex
	names map[string]string // guarded by mu
	kinds map[string]int    // guarded by mu
}

func newTrace() *trace {
	return &trace{sum: sha256.New(), names: make(map[string]string), kinds: make(map[string]int)}
}

// add appends a line.
func (tr *trace) add(step int, at time.Duration, format string, args ...any) {
	line := fmt.Sprintf("%4d %9.3fs  ", step, at.Seconds()) + fmt.Sprintf(format, args...)
	tr.lines = append(tr.lines, line)
	tr.sum.Write([]byte(line))
	tr.sum.Write([]byte{'\n'})
}

// name returns the name of a random text: its kind and a number. It is safe for concurrent use.
func (tr *trace) name(kind, text string) string {
	if text == "" {
		return kind + "-none"
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	name, ok := tr.names[text]
	if !ok {
		tr.kinds[kind]++
		name = fmt.Sprintf("%s%d", kind, tr.kinds[kind])
		tr.names[text] = name
	}
	return name
}

// last returns the last n lines.
func (tr *trace) last(n int) []string {
	return tr.lines[max(0, len(tr.lines)-n):]
}

func (tr *trace) hash() string { return hex.EncodeToString(tr.sum.Sum(nil)) }
