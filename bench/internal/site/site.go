// Package site is the origin of the benchmarks: pages of HTML, fresh for an hour if nothing else is said.
package site

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Size is the length of a page, in bytes.
const Size = 10 << 10

// The paths of a [Site]. Every other path is a page too.
const (
	Page    = "/page"        // one page, always without a content coding
	Zipped  = "/zipped"      // one page, in gzip for clients that accept it
	Private = "/pass?user=1" // a response that no cache may store
	Slow    = "/slow/"       // pages that begin with it come in two halves
	Brief   = "/brief/"      // pages that begin with it are fresh for a second, and may be stale for an hour
)

// When the halves of slow pages come: after the request, and after the first half.
const (
	FirstHalf  = 20 * time.Millisecond
	SecondHalf = 50 * time.Millisecond
)

// A Site is an origin. It is safe for concurrent use.
type Site struct {
	served atomic.Int64
	active atomic.Int64
	text   []byte // what pages are made of
	zipped []byte
}

// New returns a site.
func New() *Site {
	s := &Site{text: text(512 << 10)}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(s.Body(Zipped)) // to memory
	_ = w.Close()
	s.zipped = b.Bytes()
	return s
}

// text returns words that compress about as well as prose.
func text(size int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 5000)
	for i := range words {
		letters := make([]byte, 2+r.IntN(9))
		for j := range letters {
			letters[j] = byte('a' + r.IntN(26))
		}
		words[i] = string(letters)
	}
	var b bytes.Buffer
	for b.Len() < size {
		fmt.Fprintf(&b, "<p>%s</p>\n", words[int(float64(len(words))*r.Float64()*r.Float64())])
	}
	return b.Bytes()
}

// Served returns how many requests the site got.
func (s *Site) Served() int64 { return s.served.Load() }

// AwaitIdle returns once the site has got no request for the duration quiet and has answered all. It fails
// when the context is done.
func (s *Site) AwaitIdle(ctx context.Context, quiet time.Duration) error {
	ticker := time.NewTicker(quiet)
	defer ticker.Stop()
	for before := int64(-1); ; {
		now := s.Served()
		if now == before && s.active.Load() == 0 {
			return nil
		}
		before = now
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for an idle origin, which has got %d requests: %w", now, context.Cause(ctx))
		}
	}
}

// Body returns the body of the page at a path: [Size] bytes that differ from page to page.
func (s *Site) Body(path string) []byte {
	head := "<!doctype html><title>" + path + "</title>\n"
	h := fnv.New64a()
	_, _ = io.WriteString(h, path) // never fails
	at := h.Sum64() % uint64(len(s.text)-Size)
	return append([]byte(head), s.text[at:][:Size-len(head)]...)
}

func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.active.Add(1)
	defer s.active.Add(-1)
	s.served.Add(1)
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "public, s-maxage=3600")
	body := s.Body(r.URL.Path)
	switch r.URL.Path {
	case "/pass":
		h.Set("Cache-Control", "private, no-store")
	case Zipped:
		h.Set("Vary", "Accept-Encoding")
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			h.Set("Content-Encoding", "gzip")
			body = s.zipped
		}
	}
	if strings.HasPrefix(r.URL.Path, Brief) {
		h.Set("Cache-Control", "public, max-age=1, stale-while-revalidate=3600")
	}
	if strings.HasPrefix(r.URL.Path, Slow) {
		half := len(body) / 2
		time.Sleep(FirstHalf)
		_, _ = w.Write(body[:half]) // the client may be gone, here and below
		_ = http.NewResponseController(w).Flush()
		time.Sleep(SecondHalf)
		_, _ = w.Write(body[half:])
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
}
