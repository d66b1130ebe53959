package backup

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A process that has a folder open serves these paths on the socket in it, which only the folder's owner can reach.
const (
	pathPrefix = "/-/folder/"
	backupPath = pathPrefix + "backup"
	checkPath  = pathPrefix + "check"

	compactPath = pathPrefix + "compact"
)

const (
	// sizeHeader is the estimated length of a backup in bytes, and errorTrailer why it ended early.
	sizeHeader   = "Isr-Estimated-Size"
	errorTrailer = "Isr-Error"
	// writeTime bounds one write to a client.
	writeTime = time.Minute
	// reportEvery is the interval between lines of progress.
	reportEvery = 200 * time.Millisecond
	maxLine     = 1 << 20
)

// A line is one of the response of a long operation: its progress, or in the last one its result.
type line struct {
	Done   int64    `json:"done,omitempty"`
	Total  int64    `json:"total,omitempty"`
	Faults []string `json:"faults,omitempty"`
	Error  string   `json:"error,omitempty"`
	End    bool     `json:"end,omitempty"`
}

// Before returns a handler that serves the operations on a source, and leaves other paths to next.
func (s Source) Before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !strings.HasPrefix(r.URL.Path, pathPrefix):
			next.ServeHTTP(w, r)
		case r.Method != http.MethodPost:
			http.Error(w, "expected POST", http.StatusMethodNotAllowed)
		case r.URL.Path == backupPath:
			s.serveBackup(w, r)
		case r.URL.Path == checkPath:
			serveLines(w, r, s.Check)
		case r.URL.Path == compactPath:
			serveLines(w, r, func(ctx context.Context, progress Progress) ([]string, error) {
				return s.Compact(ctx, r.URL.Query().Has("discard"), progress)
			})
		default:
			http.NotFound(w, r)
		}
	})
}

func (s Source) serveBackup(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "application/x-tar")
	h.Set("Trailer", errorTrailer)
	out := &patient{w: w, c: http.NewResponseController(w)}
	total, err := s.estimate(r.Context())
	h.Set(sizeHeader, strconv.FormatInt(total, 10))
	if err == nil {
		err = s.Write(r.Context(), out, nil)
	}
	if err != nil {
		h.Set(errorTrailer, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
}

// A patient writer extends the deadline of a response with each write.
type patient struct {
	w io.Writer
	c *http.ResponseController
}

func (p *patient) Write(b []byte) (int, error) {
	if err := p.c.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return 0, err
	}
	return p.w.Write(b)
}

// serveLines serves an operation with its progress.
func serveLines(w http.ResponseWriter, r *http.Request, do func(context.Context, Progress) ([]string, error)) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := &patient{w: w, c: http.NewResponseController(w)}
	lines := json.NewEncoder(out)
	said := time.Now()
	faults, err := do(r.Context(), func(done, total int64) {
		if time.Since(said) < reportEvery {
			return
		}
		said = time.Now()
		_ = lines.Encode(line{Done: done, Total: total}) // fails if the client is gone, which ends the context
		_ = out.c.Flush()
	})
	last := line{Faults: faults, End: true}
	if err != nil {
		last.Error = err.Error()
	}
	_ = lines.Encode(last)
}

// A Client asks the process that has a folder open.
type Client struct {
	http http.Client
}

// NewClient returns a client over a transport to the socket of a folder.
func NewClient(transport http.RoundTripper) *Client {
	return &Client{http: http.Client{Transport: transport}}
}

func (c *Client) post(ctx context.Context, path string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	res, err := c.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf("ask the process that uses the folder: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		_ = res.Body.Close()
		return nil, fmt.Errorf("the process that uses the folder cannot do that (status %d): it is another version of isr; stop it, or use its version", res.StatusCode)
	}
	return res, nil
}

// Write is [Source.Write] of the process that has the folder open.
func (c *Client) Write(ctx context.Context, w io.Writer, progress Progress) error {
	res, err := c.post(ctx, backupPath)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	total, _ := strconv.ParseInt(res.Header.Get(sizeHeader), 10, 64)
	_, err = io.Copy(&counting{w: w, total: total, progress: progress}, res.Body)
	if reason := res.Trailer.Get(errorTrailer); err == nil && reason != "" {
		err = errors.New(reason)
	}
	return err
}

// A counting writer reports its progress.
type counting struct {
	w           io.Writer
	done, total int64
	progress    Progress
}

func (c *counting) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	if c.done += int64(n); c.progress != nil {
		c.progress(c.done, max(c.done, c.total))
	}
	return n, err
}

// Check is [Source.Check] of the process that has the folder open.
func (c *Client) Check(ctx context.Context, progress Progress) ([]string, error) {
	return c.lines(ctx, checkPath, progress)
}

// Compact is [Source.Compact] of the process that has the folder open.
func (c *Client) Compact(ctx context.Context, discard bool, progress Progress) ([]string, error) {
	path := compactPath
	if discard {
		path += "?discard"
	}
	return c.lines(ctx, path, progress)
}

func (c *Client) lines(ctx context.Context, path string, progress Progress) ([]string, error) {
	res, err := c.post(ctx, path)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("read the response of the process that uses the folder: %w", err)
		}
		switch {
		case l.Error != "":
			return l.Faults, errors.New(l.Error)
		case l.End:
			return l.Faults, nil
		case progress != nil:
			progress(l.Done, l.Total)
		}
	}
	return nil, errors.Join(errors.New("the process that uses the folder has ended"), lines.Err())
}
