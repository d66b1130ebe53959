package accesslog

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/facetheory/isr/internal/telemetry"
)

// Config configures a [Log].
type Config struct {
	// Path is the file, which is created if it does not exist, for its owner and group
	// (0640), and appended to.
	Path string
	// Syslog is the address of a server that receives the lines if Path is empty: udp://HOST:PORT, tcp://HOST:PORT or
	// unix:///PATH. Lines are dropped while it cannot be reached.
	Syslog string
	// Output receives the lines if Path and Syslog are empty.
	Output io.Writer
	// Format is JSON or Text. Empty means JSON.
	Format Format
	// Fields name the parts of a line, in their order: standard ones by either of their names (docs/logs.md), and
	// headers as request.NAME and response.NAME. Empty means all standard ones. In text, a line has them as
	// name=value.
	Fields []string
	// SampleHits: one in SampleHits hits, at random, has a line. Zero means 1: each hit has. Errors
	// (from status 500 on) and incomplete responses always have one.
	SampleHits int
	// ClientAddress selects which part of a client's address lines have. Empty means AddressFull.
	ClientAddress Address
	// Dropped counts the lines that were dropped. Nil: a counter of the log's own.
	Dropped *atomic.Int64
	// Logger logs that lines cannot be written. Nil means slog.Default().
	Logger *slog.Logger
}

// A Format is the format of lines.
type Format string

// The formats.
const (
	JSON Format = "json"
	Text Format = "text"
)

// A Log is an access log. It is safe for concurrent use. Requests that are refused (see [isr.Report]) have at most ten lines a
// second.
type Log struct {
	cfg    Config
	append func([]byte, *line, []field) []byte
	fields []field
	drafts sync.Pool // of *draft
	buffer buffer
	window refusedWindow
	done   chan struct{} // closed once the goroutine has ended
}

var _ telemetry.Sink = (*Log)(nil)

// New opens the log. The caller must Close it.
func New(cfg Config) (*Log, error) {
	l := &Log{cfg: cfg, append: appendJSON, done: make(chan struct{})}
	l.cfg.SampleHits = max(cfg.SampleHits, 1)
	if l.cfg.Logger == nil {
		l.cfg.Logger = slog.Default()
	}
	switch cfg.Format {
	case "", JSON:
	case Text:
		l.append = appendText
	default:
		return nil, fmt.Errorf("the format %q of the access log is unknown; expected json or text", cfg.Format)
	}
	fields, err := fieldsOf(cfg.Fields)
	if err != nil {
		return nil, fmt.Errorf("the access log %w", err)
	}
	l.fields = fields
	if len(cfg.Fields) > 0 && cfg.Format == Text {
		l.append = appendPairs
	}
	switch cfg.ClientAddress {
	case "", AddressFull, AddressMasked, AddressNone:
	default:
		return nil, fmt.Errorf("the client address %q of the access log is unknown; expected full, masked or none", cfg.ClientAddress)
	}
	out := cfg.Output
	if cfg.Path != "" {
		f, err := open(cfg.Path)
		if err != nil {
			return nil, err
		}
		out = f
	}
	if cfg.Path == "" && cfg.Syslog != "" {
		server, err := newSyslog(cfg.Syslog)
		if err != nil {
			return nil, err
		}
		out = server
	}
	if out == nil {
		return nil, errors.New("the access log has neither a path, a syslog server nor an output")
	}
	l.drafts.New = func() any { return &draft{text: make([]byte, 0, 1024)} }
	l.buffer.limit, l.buffer.dropped = maxBuffer, cmp.Or(cfg.Dropped, new(atomic.Int64))
	l.buffer.init()
	go func() {
		defer close(l.done)
		l.write(out)
	}()
	return l, nil
}

// open opens a path. A named pipe without a reader is an error, for which O_NONBLOCK is needed:
// the system would wait for one.
func open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY|syscall.O_NONBLOCK, 0o640)
	switch {
	case errors.Is(err, syscall.ENXIO):
		return nil, fmt.Errorf("cannot open access log: %w; start the program that reads the named pipe first", err)
	case err != nil:
		return nil, fmt.Errorf("cannot open access log: %w; its folder must exist and be writable", err)
	}
	return f, nil
}

// Done implements [telemetry.Sink].
func (l *Log) Done(x *telemetry.Exchange) {
	if x.Refused && !l.window.admits(time.Now()) {
		return
	}
	rate := 1
	if x.Hit && x.Status < http.StatusInternalServerError && !x.Aborted {
		rate = l.cfg.SampleHits
	}
	if rate > 1 && rand.IntN(rate) > 0 { //nolint:gosec // a sample
		return
	}
	d := l.drafts.Get().(*draft)
	d.line = newLine(x, rate, l.cfg.ClientAddress)
	d.text = append(l.append(d.text[:0], &d.line, l.fields), '\n')
	l.buffer.add(d.text)
	d.line = line{}
	l.drafts.Put(d)
}

// refusedLines bounds the lines of refused requests, a second: a flood of them must not fill the disk.
const refusedLines = 10

// A refusedWindow counts the lines of refused requests in a second.
type refusedWindow struct {
	mu     sync.Mutex
	second int64 // guarded by mu
	lines  int   // guarded by mu
}

// admits reports whether a refused request has a line.
func (w *refusedWindow) admits(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if second := now.Unix(); second != w.second {
		w.second, w.lines = second, 0
	}
	w.lines++
	return w.lines <= refusedLines
}

// A draft is the memory in which a line is made.
type draft struct {
	line line
	text []byte
}

// Dropped returns how many lines were dropped since the start: because they came faster than
// they could be written, or could not be written.
func (l *Log) Dropped() int64 { return l.buffer.dropped.Load() }

// Reopen closes the file and opens its path again, for programs that rotate logs. It returns
// at once. If the path cannot be opened, the log goes on in the old file.
func (l *Log) Reopen() {
	select {
	case l.buffer.reopen <- struct{}{}:
	default: // it is about to
	}
}
