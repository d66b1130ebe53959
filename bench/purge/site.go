package main

import (
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	tag     = "products"
	filler  = 2000 // bytes of a page besides its text
	lasting = 3600 // freshness window in seconds
)

// A site is the origin. All its pages show the current version.
type site struct {
	address string
	version atomic.Int64
	server  *http.Server
}

func startSite() (*site, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &site{address: l.Addr().String()}
	s.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Cache-Control", fmt.Sprintf("s-maxage=%d", lasting))
		h.Set("Surrogate-Key", tag)
		fmt.Fprintf(w, "%s%0*d", s.text(r.URL.Path, s.version.Load()), filler, 0)
	})}
	go func() { _ = s.server.Serve(l) }() // ends with close
	return s, nil
}

func (s *site) close() { _ = s.server.Close() }

// text is what a page shows at a version; no text is the beginning of another.
func (s *site) text(path string, version int64) string {
	return fmt.Sprintf("<p>%s, version %d</p>\n", path, version)
}

func pagePath(n int) string { return fmt.Sprintf("/product/%d", n) }
