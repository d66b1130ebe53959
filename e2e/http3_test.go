package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quic-go/quic-go/http3"

	"github.com/facetheory/isr/e2e/internal/process"
	"github.com/facetheory/isr/internal/testbed"
)

// A quick is a server of HTTP/3 whose processes follow each other.
type quick struct {
	*seamless
	client *http.Client // of HTTP/3
	url    string
}

func newQuick(t *testing.T) *quick {
	t.Helper()
	s := newSeamless(t)
	testbed.WriteCertificate(t, filepath.Join(s.dir, "crt"), filepath.Join(s.dir, "key"), 1, "a.test")
	q := &quick{seamless: s, url: "https://" + s.address}
	q.write("1")
	q.connect()
	return q
}

// write writes the configuration: responses have a version.
func (q *quick) write(version string) {
	q.Helper()
	text := fmt.Sprintf("listen: [{address: %q, tls: [{cert: %s/crt, key: %s/key}], http3: true, tls_policy: {min_version: \"1.%s\"}}]\nhosts: [127.0.0.1, site.test]\norigins: {site: {url: %q}}\nstore: {data: %s/data, timeout: 1m}\nadmin: {address: none}\naccess_log: {path: %s/access}\nroutes: [{match: /, set_headers: {X-Version: %q}}]\n",
		q.address, q.dir, q.dir, map[string]string{"1": "2", "2": "3"}[version], q.origin.server.URL, q.dir, q.dir, version)
	if err := os.WriteFile(filepath.Join(q.dir, "isr.yaml"), []byte(text), 0o600); err != nil {
		q.Fatal(err)
	}
}

// connect has the next requests made on new connections.
func (q *quick) connect() {
	transport := &http3.Transport{TLSClientConfig: &tls.Config{ServerName: "a.test", InsecureSkipVerify: true}} //nolint:gosec // a certificate of the test
	q.Cleanup(func() { _ = transport.Close() })
	q.client = &http.Client{Transport: transport, Timeout: patience}
}

func (q *quick) command() *exec.Cmd {
	cmd := exec.Command(q.program, "serve", "--config", filepath.Join(q.dir, "isr.yaml"))
	cmd.Env = append(os.Environ(), "REAL="+process.Binary(q, ".."))
	cmd.Stdout, cmd.Stderr = q.log, q.log
	return cmd
}

// shows requests a page by HTTP/3 until the response has a version: connections of the time before are told to end.
func (q *quick) shows(version string) {
	q.Helper()
	await(q.TB, "version "+version+" by HTTP/3", patience, func() bool {
		r := visit(context.Background(), q.client, http.MethodGet, q.url+"/")
		return r.err == nil && r.status == http.StatusOK && r.header.Get("X-Version") == version
	})
}

// A site by HTTP/3: pages from the cache, uploads, streams, requests that are canceled, a reload, and a shutdown that lets a
// response finish.
func TestHTTP3(t *testing.T) {
	t.Parallel()
	q := newQuick(t)
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB
	canceled, finish := make(chan struct{}), make(chan struct{})
	q.origin.set("/large", func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Cache-Control", "public, max-age=3600")
		_, _ = w.Write(large)
	})
	q.origin.set("/upload", func(w http.ResponseWriter, r *http.Request, _ int) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, err)
	})
	q.origin.set("/cancel", func(w http.ResponseWriter, r *http.Request, _ int) {
		w.Header().Set("Cache-Control", "private")
		_, _ = io.WriteString(w, "begun")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(canceled)
	})
	q.origin.set("/stream", func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Cache-Control", "private")
		_, _ = io.WriteString(w, "begun ")
		_ = http.NewResponseController(w).Flush()
		<-finish
		_, _ = io.WriteString(w, "ended")
	})
	cmd := q.spawn(q.command())
	q.await("serving https://", 0)

	tcp := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}, Timeout: patience} //nolint:gosec // a certificate of the test
	port := q.address[strings.LastIndex(q.address, ":"):]
	if r := visit(t.Context(), tcp, http.MethodGet, q.url+"/"); r.err != nil || r.header.Get("Alt-Svc") != `h3="`+port+`"; ma=86400` {
		t.Errorf("HTTP/2 announces %q: %v", r.header.Get("Alt-Svc"), r)
	}
	if r := visit(t.Context(), q.client, http.MethodGet, q.url+"/"); r.err != nil || !r.hit() || r.header.Get("Alt-Svc") != "" {
		t.Errorf("a page in memory: %v with Alt-Svc %q", r, r.header.Get("Alt-Svc"))
	}
	for _, hit := range []bool{false, true} {
		if r := visit(t.Context(), q.client, http.MethodGet, q.url+"/large"); r.err != nil || r.hit() != hit || r.body != string(large) {
			t.Errorf("a large page: %d bytes, hit %t: %v", len(r.body), r.hit(), r.err)
		}
	}
	res, err := q.client.Post(q.url+"/upload", "text/plain", bytes.NewReader(large))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(res.Body); err != nil || string(text) != fmt.Sprint(len(large), nil) {
		t.Errorf("an upload: %s, %v", text, err)
	}
	_ = res.Body.Close()

	ctx, cancel := context.WithCancel(t.Context())
	begin := func(ctx context.Context, path string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, q.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := q.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(res.Body, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		return res
	}
	res = begin(ctx, "/cancel")
	cancel()
	select {
	case <-canceled:
	case <-time.After(patience):
		t.Error("the origin does not learn that the visitor has canceled")
	}
	_ = res.Body.Close()

	q.write("2")
	q.signal(cmd.Process.Pid, syscall.SIGHUP)
	q.shows("2")

	res = begin(t.Context(), "/stream")
	defer res.Body.Close()
	q.signal(cmd.Process.Pid, syscall.SIGTERM)
	q.await("stopping", 0)
	close(finish)
	if text, err := io.ReadAll(res.Body); err != nil || string(text) != " ended" {
		t.Errorf("the rest of a response at shutdown: %q, %v", text, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(filepath.Join(q.dir, "access")); err != nil || strings.Count(string(text), `"network.protocol.version":"3"`) < 5 {
		t.Errorf("the access log is %s, %v", text, err)
	}
}

// The socket of HTTP/3 passes to a successor, and to a process that takes over after a reload. Requests in flight finish.
func TestHTTP3Handover(t *testing.T) {
	t.Parallel()
	q := newQuick(t)
	finish := make(chan struct{})
	q.origin.set("/stream", func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Cache-Control", "private")
		_, _ = io.WriteString(w, "begun ")
		_ = http.NewResponseController(w).Flush()
		<-finish
		_, _ = io.WriteString(w, "ended")
	})
	q.spawn(q.command())
	pid := q.seamless.await("serving https://", 0)
	q.shows("1")
	res, err := q.client.Get(q.url + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var reading sync.WaitGroup
	reading.Go(func() {
		if text, err := io.ReadAll(res.Body); err != nil || string(text) != "begun ended" {
			t.Errorf("a response that was in flight: %q, %v", text, err)
		}
	})
	q.write("2")
	q.signal(pid, syscall.SIGUSR2)
	q.await("handing over to a new process", 0)
	q.await("stopping", 0)
	close(finish)
	reading.Wait()
	q.await("serving https://", pid)
	q.await("the new process serves", pid)
	q.connect()
	q.shows("2")
}
