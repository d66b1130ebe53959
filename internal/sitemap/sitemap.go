// Package sitemap reads the URLs of a site from its sitemap (sitemaps.org, "Sitemaps XML format"):
// a sitemap, a sitemap index, or a text file with a URL in each line, with gzip or without.
//
// Whatever a site sends is bounded: files, their sizes, URLs and redirects. Files of other hosts
// than the declared ones are not fetched, and their URLs are skipped.
package sitemap

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Limits of a [Reader]; the limits of a file are of the format.
const (
	maxFiles     = 10_000
	maxFile      = 50 << 20 // bytes, uncompressed
	maxURLs      = 50_000   // of a file
	maxURL       = 2048     // bytes; longer ones are skipped
	maxRedirects = 5
	fileTime     = time.Minute
	maxDepth     = 2 // an index, and its sitemaps
)

// ErrFormat: a file is no sitemap, or exceeds a limit.
var ErrFormat = errors.New("not a sitemap")

// A Reader reads sitemaps. It is used by one goroutine.
type Reader struct {
	// Serves reports whether a host is one of the site. Others are not fetched.
	Serves func(host string) bool
	// Transport sends the requests; nil means http.DefaultTransport.
	Transport http.RoundTripper

	// Skipped counts URLs of other hosts and such that are too long or invalid. Files counts the
	// files that were read.
	Skipped, Files int
}

// URLs yields the URLs of a sitemap, in order, and ends after the first error.
func (r *Reader) URLs(ctx context.Context, root string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if _, err := r.read(ctx, root, 1, func(u string) bool { return yield(u, nil) }); err != nil {
			yield("", err)
		}
	}
}

// read reads a file, and the files that it names. more is false if yield has returned false. A file is
// read to its end before its URLs are yielded: the caller may take hours for them, for which no server
// keeps a connection. So one file is in memory at a time, and an index.
func (r *Reader) read(ctx context.Context, at string, depth int, yield func(string) bool) (more bool, err error) {
	if r.Files++; r.Files > maxFiles {
		return false, fmt.Errorf("%w: %s names more than %d files", ErrFormat, at, maxFiles)
	}
	var pages, files []string
	err = r.fetch(ctx, at, func(body io.Reader) error {
		return parse(body, func(loc string, isFile bool) error {
			switch {
			case !r.accepts(loc):
				r.Skipped++
			case isFile && depth >= maxDepth:
				return fmt.Errorf("%w: it is an index within an index", ErrFormat)
			case isFile && len(files) >= maxFiles:
				return fmt.Errorf("%w: it names more than %d files", ErrFormat, maxFiles)
			case isFile:
				files = append(files, loc)
			default:
				pages = append(pages, loc)
			}
			return nil
		})
	})
	if err != nil {
		return false, fmt.Errorf("sitemap %s: %w", at, err)
	}
	for _, page := range pages {
		if !yield(page) {
			return false, nil
		}
	}
	for _, file := range files {
		if more, err = r.read(ctx, file, depth+1, yield); err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// accepts reports whether a URL is of the site.
func (r *Reader) accepts(text string) bool {
	u, err := url.Parse(text)
	return err == nil && len(text) <= maxURL && (u.Scheme == "http" || u.Scheme == "https") && u.User == nil && r.Serves(u.Host)
}

// fetch calls read with the content of a file.
func (r *Reader) fetch(ctx context.Context, at string, read func(io.Reader) error) error {
	ctx, cancel := context.WithTimeout(ctx, fileTime)
	defer cancel()
	client := &http.Client{Transport: r.Transport, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		switch {
		case len(via) > maxRedirects:
			return fmt.Errorf("more than %d redirects", maxRedirects)
		case !r.accepts(next.URL.String()):
			return fmt.Errorf("it redirects to another host, %s", next.URL.Host)
		}
		return nil
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/xml, text/plain;q=0.5")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // read only
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s", response.Status)
	}
	body := bufio.NewReader(response.Body)
	if magic, err := body.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b { // a file of its own, not a coding of the response
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrFormat, err)
		}
		return read(&limited{r: unzipped, left: maxFile})
	}
	return read(&limited{r: body, left: maxFile})
}

// limited fails beyond a number of bytes, instead of ending.
type limited struct {
	r    io.Reader
	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("%w: it has more than %d bytes", ErrFormat, int64(maxFile))
	}
	n, err := l.r.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}

// parse calls found for each URL of a file, and whether it is the URL of another file, until found
// fails.
func parse(body io.Reader, found func(loc string, isFile bool) error) error {
	buffered := bufio.NewReaderSize(body, maxURL+2)
	start, err := buffered.Peek(512)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if text := strings.TrimSpace(strings.TrimPrefix(string(start), "\ufeff")); strings.HasPrefix(text, "http") {
		return parseText(buffered, found)
	}
	d := xml.NewDecoder(buffered)
	d.CharsetReader = func(charset string, in io.Reader) (io.Reader, error) {
		if strings.EqualFold(charset, "us-ascii") {
			return in, nil
		}
		return nil, fmt.Errorf("its encoding is %.40q, expected UTF-8", charset)
	}
	var path []string
	for n := 0; ; {
		token, err := d.Token()
		switch {
		case errors.Is(err, io.EOF):
			if n == 0 && path == nil {
				return fmt.Errorf("%w: it has no element urlset or sitemapindex", ErrFormat)
			}
			return nil
		case errors.Is(err, ErrFormat):
			return err
		case err != nil:
			return fmt.Errorf("%w: %w", ErrFormat, err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			if path = append(path, t.Name.Local); len(path) == 1 && t.Name.Local != "urlset" && t.Name.Local != "sitemapindex" {
				return fmt.Errorf("%w: it is a document of %.40q, expected urlset or sitemapindex", ErrFormat, t.Name.Local)
			}
			if len(path) > 16 {
				return fmt.Errorf("%w: its elements are nested more than 16 deep", ErrFormat)
			}
			isFile := slices.Equal(path, []string{"sitemapindex", "sitemap", "loc"})
			if !isFile && !slices.Equal(path, []string{"urlset", "url", "loc"}) {
				continue
			}
			var loc string
			if err := d.DecodeElement(&loc, &t); err != nil {
				return fmt.Errorf("%w: %w", ErrFormat, err)
			}
			path = path[:len(path)-1]
			if n++; n > maxURLs {
				return fmt.Errorf("%w: it has more than %d URLs", ErrFormat, maxURLs)
			}
			if err := found(strings.TrimSpace(loc), isFile); err != nil {
				return err
			}
		case xml.EndElement:
			if path = path[:len(path)-1]; len(path) == 0 {
				path = []string{} // the document has ended
			}
		}
	}
}

// parseText reads a URL in each line.
func parseText(body io.Reader, found func(loc string, isFile bool) error) error {
	lines, n := bufio.NewScanner(body), 0
	for lines.Scan() {
		text := strings.TrimSpace(strings.TrimPrefix(lines.Text(), "\ufeff"))
		if text == "" {
			continue
		}
		if n++; n > maxURLs {
			return fmt.Errorf("%w: it has more than %d URLs", ErrFormat, maxURLs)
		}
		if err := found(text, false); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return nil
}
