package accesslog

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxBuffer bounds the lines that wait to be written, in bytes. As many again may be
	// about to be written.
	maxBuffer = 4 << 20
	// writeSize is how many bytes are written without waiting for flushEvery.
	writeSize = 64 << 10
	// flushEvery bounds how long a line waits.
	flushEvery = 250 * time.Millisecond
	// closeTime bounds the wait of Close for an output that does not take the last lines.
	closeTime = 5 * time.Second
)

// A buffer has the lines that wait to be written.
type buffer struct {
	mu      sync.Mutex
	pending []byte // guarded by mu
	closed  bool   // guarded by mu

	limit   int // of pending
	dropped *atomic.Int64
	full    chan struct{} // there are at least writeSize bytes
	reopen  chan struct{}
	stop    chan struct{} // closed by Close
}

func (b *buffer) init() {
	b.full, b.reopen, b.stop = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{})
}

// add adds a line, or drops it if there is no room.
func (b *buffer) add(line []byte) {
	b.mu.Lock()
	if b.closed || len(b.pending)+len(line) > b.limit {
		b.mu.Unlock()
		b.dropped.Add(1)
		return
	}
	before := len(b.pending)
	b.pending = append(b.pending, line...)
	due := before < writeSize && len(b.pending) >= writeSize
	b.mu.Unlock()
	if due {
		select {
		case b.full <- struct{}{}:
		default:
		}
	}
}

// swap returns the lines that wait, and keeps further ones in an empty slice.
func (b *buffer) swap(empty []byte) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	lines := b.pending
	b.pending = empty[:0]
	return lines
}

// write writes the lines to out until the log is closed. It alone uses the output.
func (l *Log) write(out io.Writer) {
	o, ticker := output{log: l, to: out}, time.NewTicker(flushEvery)
	defer ticker.Stop()
	var spare []byte
	for open := true; open; {
		again := false
		select {
		case <-l.buffer.full:
		case <-ticker.C:
		case <-l.buffer.reopen:
			again = true
		case <-l.buffer.stop:
			open = false
		}
		lines := l.buffer.swap(spare)
		o.write(lines)
		spare = lines
		if again {
			o.reopen()
		}
	}
	o.close()
}

// An output is where the lines go to.
type output struct {
	log     *Log
	to      io.Writer
	failing bool // the last write failed
	torn    bool // what was written last does not end with a line
}

// write writes lines. Those that cannot be written are counted, and reported once until
// writing succeeds again.
func (o *output) write(lines []byte) {
	if len(lines) == 0 {
		return
	}
	if o.torn {
		if _, err := io.WriteString(o.to, "\n"); err != nil {
			o.failed(err, lines)
			return
		}
		o.torn = false
	}
	n, err := o.to.Write(lines)
	if err != nil {
		o.torn = n > 0 && lines[n-1] != '\n'
		o.failed(err, lines[n:])
		return
	}
	if o.failing {
		o.failing = false
		o.log.cfg.Logger.Info("access log is written again", "dropped", o.log.Dropped())
	}
}

// failed counts lines that were not written.
func (o *output) failed(err error, lines []byte) {
	o.log.buffer.dropped.Add(int64(bytes.Count(lines, []byte("\n"))))
	if !o.failing {
		o.failing = true
		o.log.cfg.Logger.Error("failed to write access log; lines are dropped and counted until it can be written", "error", err)
	}
}

// reopen opens the path again.
func (o *output) reopen() {
	if o.log.cfg.Path == "" {
		return
	}
	f, err := open(o.log.cfg.Path)
	if err != nil {
		o.log.cfg.Logger.Error("failed to reopen access log; it goes on in the old file", "error", err)
		return
	}
	o.close()
	o.to, o.torn = f, false
}

// close closes a file, or the connection to a syslog server.
func (o *output) close() {
	if f, ok := o.to.(io.Closer); ok && (o.log.cfg.Path != "" || o.log.cfg.Syslog != "") {
		if err := f.Close(); err != nil {
			o.log.cfg.Logger.Error("failed to close access log", "error", err)
		}
	}
}

// Close writes the lines that wait, and closes the file. Later lines are dropped. It gives up
// after closeTime.
func (l *Log) Close() {
	l.buffer.mu.Lock()
	closed := l.buffer.closed
	l.buffer.closed = true
	l.buffer.mu.Unlock()
	if !closed {
		close(l.buffer.stop)
	}
	timeout := time.NewTimer(closeTime)
	defer timeout.Stop()
	select {
	case <-l.done:
	case <-timeout.C:
		l.cfg.Logger.Error("failed to write the end of the access log in time")
	}
}
