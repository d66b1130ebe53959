// Package logreader reads access logs of web servers, proxies and CDNs, line by line.
//
// The problem: each server writes a format of its own, logs are larger than memory, are rotated into several
// compressed files, and contain whatever strangers have sent.
//
//	file, gzip or not ──► lines, bounded ──► format ──► Entry ─┐
//	file ─────────────────────────────────────────────► Entry ─┼─► Merge: in the order of time
//	file ─────────────────────────────────────────────► Entry ─┘
//
// Guarantees: a line, and each text of an entry, is bounded. What is no entry is counted, with its first
// lines as examples, and never an error: only a file of no known format is. Memory does not depend on the
// length of a log.
package logreader

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
)

// Bounds of what is read.
const (
	// MaxLine is the length of the longest line, in bytes. A longer one is skipped.
	MaxLine = 64 << 10
	// detectLines is how many lines are looked at to recognise the format.
	detectLines = 20
	// maxExamples is how many lines that are no entries are kept, of at most maxExample bytes.
	maxExamples = 3
	maxExample  = 120
)

// ErrFormat: the lines have no known format.
var ErrFormat = errors.New("unknown log format")

// An Entry is a request of a log, with its response.
type Entry struct {
	Time   time.Time // when the response ended
	Method string
	Host   string // as requested; empty if the format does not have it
	URI    string // path and query
	Status int
	Bytes  int64         // of the response, without its header where the format tells; 0 if unknown
	Took   time.Duration // from the request to the end of the response; 0 if unknown
	// CacheControl is the field of the response, and SetsCookie whether it sets one, in formats that tell.
	CacheControl string
	SetsCookie   bool
}

// A format reads the entries of one kind of log.
type format struct {
	name string
	// parse reads a line. It returns skip for a line that is none by design, such as a comment.
	parse func(*Reader, []byte, *Entry) (result, error)
}

type result int

const (
	entry result = iota
	skip
)

// formats returns all formats, in the order in which they are tried.
func formats() []format {
	return []format{
		{"cloudfront", (*Reader).cloudFront},
		{"caddy", (*Reader).caddy},
		{"json", (*Reader).json},
		{"alb", (*Reader).alb},
		{"combined", (*Reader).combined},
	}
}

// Formats returns the names of the known formats.
func Formats() (names []string) {
	for _, f := range formats() {
		names = append(names, f.name)
	}
	return names
}

// A Reader reads the entries of one log. It is used by one goroutine.
type Reader struct {
	name   string
	lines  *bufio.Reader
	format format
	ahead  [][]byte // lines that were read to recognise the format

	columns map[string]int // of cloudFront, by name
	names   *jsonNames     // of json; nil until a line is read
	hosts   map[string]string
	stamps  stamps // of combined

	// Lines are the lines that were read, and Invalid those that are no entries.
	Lines, Invalid int64
	// Examples are the first invalid lines.
	Examples []Example
}

// An Example is a line that is no entry.
type Example struct {
	File string
	Line int64  // from 1
	Why  string // what was expected
	Text string // its beginning
}

// New returns a reader of a log, which may be compressed by gzip. name is for messages. formatName is one of
// [Formats], or empty: then the first lines decide. The error wraps ErrFormat if they have no known format.
func New(name string, in io.Reader, formatName string) (*Reader, error) {
	buffered := bufio.NewReaderSize(in, MaxLine)
	if magic, _ := buffered.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unzipped, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		buffered = bufio.NewReaderSize(unzipped, MaxLine)
	}
	r := &Reader{name: name, lines: buffered, hosts: make(map[string]string)}
	for _, f := range formats() {
		if f.name == formatName {
			r.format = f
			return r, nil
		}
	}
	if formatName != "" {
		return nil, fmt.Errorf("%w %q; expected one of %s", ErrFormat, formatName, strings.Join(Formats(), ", "))
	}
	return r, r.detect()
}

// detect reads the first lines, and chooses the format that most of them have.
func (r *Reader) detect() error {
	for len(r.ahead) < detectLines {
		line, err := r.readLine()
		if err == io.EOF { //nolint:errorlint // of readLine
			break
		}
		if err != nil {
			return err
		}
		r.ahead = append(r.ahead, bytes.Clone(line))
	}
	most := 0
	for _, f := range formats() {
		count, probe := 0, Reader{hosts: make(map[string]string)}
		for _, line := range r.ahead {
			var e Entry
			if len(bytes.TrimSpace(line)) == 0 {
				continue
			}
			if got, err := f.parse(&probe, line, &e); err == nil && got == entry {
				count++
			}
		}
		if count > most {
			r.format, most = f, count
		}
	}
	if most == 0 && len(r.ahead) > 0 {
		return fmt.Errorf("%s: %w: none of its first %d lines is one of %s; the first line is %.120q",
			r.name, ErrFormat, len(r.ahead), strings.Join(Formats(), ", "), r.ahead[0])
	}
	return nil
}

// Next reads the next entry into e. It returns io.EOF after the last one.
func (r *Reader) Next(e *Entry) error {
	for {
		line, err := r.nextLine()
		if err != nil {
			return err
		}
		r.Lines++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		*e = Entry{}
		got, err := r.format.parse(r, line, e)
		switch {
		case err == nil && got == skip:
			continue
		case err == nil:
			err = e.check()
		}
		if err == nil {
			return nil
		}
		r.Invalid++
		if len(r.Examples) < maxExamples {
			r.Examples = append(r.Examples, Example{File: r.name, Line: r.Lines, Why: err.Error(), Text: string(line[:min(len(line), maxExample)])})
		}
	}
}

func (r *Reader) nextLine() ([]byte, error) {
	if len(r.ahead) > 0 {
		line := r.ahead[0]
		r.ahead = r.ahead[1:]
		return line, nil
	}
	return r.readLine()
}

// readLine returns the next line, without its end, until the next call. A line that is too long is returned
// as its beginning, which is no entry of any format.
func (r *Reader) readLine() ([]byte, error) {
	line, err := r.lines.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		head := []byte(fmt.Sprintf("(more than %d bytes) %s", MaxLine, line[:maxExample]))
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = r.lines.ReadSlice('\n')
		}
		line = head
	}
	switch {
	case err == io.EOF && len(line) > 0: //nolint:errorlint // as bufio returns it
	case err == io.EOF: //nolint:errorlint // as bufio returns it
		return nil, io.EOF
	case err != nil:
		return nil, fmt.Errorf("%s: %w", r.name, err)
	}
	return bytes.TrimRight(line, "\r\n"), nil
}

// Limits of years, so that times have a distance.
const (
	minYear = 1970
	maxYear = 2200
)

var (
	errTime   = errors.New("a time was expected")
	errStatus = errors.New("a status from 100 to 599 was expected")
	errMethod = errors.New("a method of letters was expected")
	errURI    = errors.New("a path was expected")
)

// check checks what all formats have in common, and bounds it.
func (e *Entry) check() error {
	if year := e.Time.Year(); year < minYear || year > maxYear {
		return errTime
	}
	if e.Status < 100 || e.Status > 599 {
		return errStatus
	}
	if e.Method == "" || len(e.Method) > 32 || strings.ContainsFunc(e.Method, notLetter) {
		return errMethod
	}
	if !strings.HasPrefix(e.URI, "/") && e.URI != "*" {
		return errURI
	}
	e.Bytes, e.Took = max(e.Bytes, 0), min(max(e.Took, 0), 24*time.Hour)
	return nil
}

func notLetter(c rune) bool { return (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '-' }

// setTarget sets host and URI from a request target, which may be absolute (RFC 9112, section 3.2.2).
func (r *Reader) setTarget(e *Entry, target string) {
	if scheme, rest, ok := strings.Cut(target, "://"); ok && (scheme == "http" || scheme == "https") {
		at := strings.IndexAny(rest, "/?")
		if at < 0 {
			at = len(rest)
		}
		host, path := rest[:at], rest[at:]
		if e.Host == "" {
			e.Host = strings.TrimSuffix(strings.TrimSuffix(host, ":443"), ":80")
		}
		if !strings.HasPrefix(path, "/") {
			path = "/" + path
		}
		target = path
	}
	e.URI = target
}

// maxHosts bounds the names of hosts that are kept once for all entries.
const maxHosts = 1024

// host returns the name of a host, and keeps it for the next entries.
func (r *Reader) host(b []byte) string {
	if known, ok := r.hosts[string(b)]; ok {
		return known
	}
	if len(b) > 255 || string(b) == "-" {
		return ""
	}
	name := string(b)
	if len(r.hosts) < maxHosts {
		r.hosts[name] = name
	}
	return name
}
