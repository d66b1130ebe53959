package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/facetheory/isr/e2e/internal/process"
	"github.com/facetheory/isr/internal/testbed"
	"github.com/facetheory/isr/isrtest"
)

// Programs that people use get the same from the gateway as from the origin, with each version
// of HTTP that they speak, with and without TLS: pages, hits, codings, ranges, conditions and
// request bodies.
func TestClients(t *testing.T) {
	t.Parallel()
	s := newClientSite(t)
	for _, c := range clients() {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			etags := expectPages(t, s, c)
			expectStoredPages(t, s, c, etags)
			expectUploads(t, s, c)
		})
	}
}

// pagesOf returns the pages that only one client requests, by their paths.
func pagesOf(c client) map[string]string {
	return map[string]string{"/page/" + c.String(): smallPage, "/large/" + c.String(): largePage}
}

// expectPages requests each page twice, and returns their entity tags.
func expectPages(t *testing.T, s *clientSite, c client) (etags map[string]string) {
	t.Helper()
	etags = make(map[string]string)
	for path, want := range pagesOf(c) {
		for i, r := range c.send(t, s, exchange{Path: path}, exchange{Path: path}) {
			if r.Status != http.StatusOK || string(r.Body) != want {
				t.Errorf("%s, request %d: got %s, expected the page of %d bytes", path, i+1, r, len(want))
			}
			if hit := strings.HasPrefix(r.Header["cache-status"], "isr; hit"); hit != (i == 1) {
				t.Errorf("%s, request %d: Cache-Status %q", path, i+1, r.Header["cache-status"])
			}
			if r.Version != c.version {
				t.Errorf("%s: HTTP version %q, expected %q", path, r.Version, c.version)
			}
			etags[path] = r.Header["etag"]
		}
		if etags[path] == "" {
			t.Errorf("%s has no ETag", path)
		}
	}
	return etags
}

// expectStoredPages requests the pages in other forms, and with conditions.
func expectStoredPages(t *testing.T, s *clientSite, c client, etags map[string]string) {
	t.Helper()
	for path, want := range pagesOf(c) {
		s.awaitCodings(t, c, path)
		r := c.send(t, s,
			exchange{Path: path, Header: map[string]string{"Accept-Encoding": "gzip"}},
			exchange{Path: path, Header: map[string]string{"Range": "bytes=0-99"}},
			exchange{Path: path, Method: http.MethodHead},
			exchange{Path: path, Header: map[string]string{"If-None-Match": etags[path]}},
			exchange{Path: path},
		)
		coded, ranged, head, unchanged, again := r[0], r[1], r[2], r[3], r[4]
		if coded.Status != http.StatusOK || string(coded.Body) != want || coded.Header["content-encoding"] == "" {
			t.Errorf("%s, compressed: got %s, Content-Encoding %q", path, coded, coded.Header["content-encoding"])
		}
		if ranged.Status != http.StatusPartialContent || string(ranged.Body) != want[:100] || ranged.Header["content-range"] != fmt.Sprintf("bytes 0-99/%d", len(want)) {
			t.Errorf("%s, range: got %s, Content-Range %q", path, ranged, ranged.Header["content-range"])
		}
		if head.Status != http.StatusOK || len(head.Body) != 0 || head.Header["content-length"] != fmt.Sprint(len(want)) {
			t.Errorf("%s, HEAD: got %s, Content-Length %q", path, head, head.Header["content-length"])
		}
		if unchanged.Status != http.StatusNotModified || len(unchanged.Body) != 0 {
			t.Errorf("%s, If-None-Match: got %s, expected 304", path, unchanged)
		}
		if again.Status != http.StatusOK || string(again.Body) != want {
			t.Errorf("%s, afterwards: got %s", path, again)
		}
	}
}

// expectUploads sends bodies to the origin, and requests what is not a page.
func expectUploads(t *testing.T, s *clientSite, c client) {
	t.Helper()
	upload := bytes.Repeat([]byte("0123456789abcde\n"), 200<<10/16)
	r := c.send(t, s,
		exchange{Path: "/echo", Method: http.MethodPost, Body: upload},
		exchange{Path: "/echo", Method: http.MethodPost, Body: upload, Header: map[string]string{"Expect": "100-continue"}},
		exchange{Path: "/moved"},
		exchange{Path: "/missing"},
	)
	for i, echo := range r[:2] {
		if echo.Status != http.StatusOK || !bytes.Equal(echo.Body, upload) {
			t.Errorf("POST %d: got %s, expected the %d bytes back", i+1, echo, len(upload))
		}
	}
	// RFC 9110, section 10.1.1: the expectation of an HTTP/1.0 request is ignored.
	if want := c.version != "1.0"; r[1].Continued != want {
		t.Errorf("100 (Continue) came: %t, expected %t", r[1].Continued, want)
	}
	if moved := r[2]; moved.Status != http.StatusMovedPermanently || moved.Header["location"] != "/elsewhere" {
		t.Errorf("redirect: got %s to %q", moved, moved.Header["location"])
	}
	if missing := r[3]; missing.Status != http.StatusNotFound || string(missing.Body) != "404 page not found\n" {
		t.Errorf("missing page: got %s, %q", missing, missing.Body)
	}
}

// h2load gets the 2,000 responses that it requests on 20 connections, 10 at a time on each.
func TestClientsH2load(t *testing.T) {
	t.Parallel()
	h2load := isrtest.Engine(t, "ISR_TEST_H2LOAD", "h2load")
	s := newClientSite(t)
	for _, encrypted := range []bool{false, true} {
		path := fmt.Sprintf("/page/h2load-%t", encrypted)
		url := s.base(encrypted) + path
		out, err := exec.CommandContext(t.Context(), h2load, "-n", "2000", "-c", "20", "-m", "10", url).CombinedOutput() //nolint:gosec // the tool of ./test
		for _, want := range []string{
			"2000 done, 2000 succeeded, 0 failed, 0 errored, 0 timeout",
			"status codes: 2000 2xx, 0 3xx, 0 4xx, 0 5xx",
			"Application protocol: " + map[bool]string{false: "h2c", true: "h2"}[encrypted] + "\n",
		} {
			if err != nil || !strings.Contains(string(out), want) {
				t.Errorf("%s: %v, expected %q in:\n%s", url, err, want, out)
			}
		}
		if n := s.origin.count(path); n != 1 {
			t.Errorf("the origin was asked %d times for %s, expected once", n, path)
		}
	}
}

// A clientSite is a server with a plain listener, which accepts h2c, and one with TLS.
type clientSite struct {
	origin        *origin
	plain, secure string // URLs of the listeners
	cert          string // file
	roots         *x509.CertPool
}

var (
	smallPage = htmlOf(10 << 10)
	largePage = htmlOf(1 << 20)
)

// htmlOf returns a page of a size whose parts differ, so that a body of parts in another order
// is noticed.
func htmlOf(size int) string {
	var b strings.Builder
	b.WriteString("<!doctype html><title>Crème brûlée</title>\n")
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "<p>paragraph %d, %x\n", i, i*i*7919)
	}
	return b.String()[:size]
}

func newClientSite(t *testing.T) *clientSite {
	t.Helper()
	s := &clientSite{origin: newOrigin(t), roots: x509.NewCertPool()}
	constant := func(body string) behaviour {
		return func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("Cache-Control", "public, max-age=3600")
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(w, body) // the client notices
		}
	}
	s.origin.set("/page/", constant(smallPage))
	s.origin.set("/large/", constant(largePage))
	s.origin.set("/echo", func(w http.ResponseWriter, r *http.Request, _ int) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write(body)
	})
	s.origin.set("/moved", func(w http.ResponseWriter, r *http.Request, _ int) {
		http.Redirect(w, r, "/elsewhere", http.StatusMovedPermanently)
	})

	settings := embedded(t)
	settings.env = append(settings.env, "ISR_ADMIN=none")
	s.cert = filepath.Join(settings.dir, "site.crt")
	testbed.WriteCertificate(t, s.cert, filepath.Join(settings.dir, "site.key"), 1, "127.0.0.1")
	text, err := os.ReadFile(s.cert)
	if err != nil || !s.roots.AppendCertsFromPEM(text) {
		t.Fatalf("read the certificate: %v", err)
	}
	file := fmt.Sprintf(`listen:
  - {address: "127.0.0.1:0", h2c: true, redirect_https: false}
  - {address: "127.0.0.1:0", tls: [{cert: site.crt, key: site.key}]}
hosts: [127.0.0.1]
origins: {site: {url: %q}}
`, s.origin.server.URL)
	if err := os.WriteFile(filepath.Join(settings.dir, "isr.yaml"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := settings.command(context.Background(), t, "serve", "--config", "isr.yaml")
	p, urls := process.Serve(t, cmd, regexp.MustCompile(`msg="serving (http://[^"]+)"`))
	t.Cleanup(p.Kill)
	s.plain, s.secure, _ = strings.Cut(urls, ", ")
	return s
}

// base returns the URL of a listener.
func (s *clientSite) base(encrypted bool) string {
	if encrypted {
		return s.secure
	}
	return s.plain
}

// transport returns a transport of Go that speaks a version of HTTP, "1.1" or "2".
func (s *clientSite) transport(t *testing.T, version string) *http.Transport {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(version == "1.1")
	protocols.SetHTTP2(version == "2")
	protocols.SetUnencryptedHTTP2(version == "2")
	transport := &http.Transport{
		Protocols: protocols, TLSClientConfig: &tls.Config{RootCAs: s.roots},
		DisableCompression: true, ExpectContinueTimeout: patience,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// awaitCodings waits until a page is compressed, as curl and the scripts accept it.
func (s *clientSite) awaitCodings(t *testing.T, c client, path string) {
	t.Helper()
	visitor := &http.Client{Transport: s.transport(t, "1.1")}
	for _, accept := range []string{"gzip", "deflate, gzip, br, zstd"} {
		await(t, path+" in "+accept, patience, func() bool {
			return s.visit(t, visitor, s.base(c.encrypted)+path, accept).header.Get("Content-Encoding") != ""
		})
	}
}

// visit requests a URL whose host is the listener's.
func (s *clientSite) visit(t *testing.T, visitor *http.Client, url, accept string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", accept)
	return do(visitor, req)
}
