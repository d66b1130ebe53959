package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/facetheory/isr/e2e/internal/process"
	"github.com/facetheory/isr/internal/testbed"
)

// arrivalRate is how many requests arrive in a second.
const arrivalRate = 1000

// BenchmarkHandover measures handovers under arrivals, for docs/upgrade.md:
//
//	go test ./e2e -run '^$' -bench 'Handover|Activation' -benchtime 20x
//
// Requests arrive at a constant rate, by HTTP/1.1, HTTP/2 over TLS and the PROXY protocol, by new connections and by kept ones, and
// none is sent again. While processes follow each other and the binary is replaced, none must be refused or cut off. It is no test: on a
// busy machine the client may not send for a second, after which a stopping server closes a kept connection.
func BenchmarkHandover(b *testing.B) {
	s := newSeamless(b)
	a := newArrivals(s)
	s.spawn(a.command())
	pid := s.await("", 0)
	a.begin()
	for b.Loop() {
		s.upgrade()
		pid = s.handOver(pid)
		a.more()
	}
	a.end(b)
}

// BenchmarkActivation measures the same with a service manager that keeps the sockets, and restarts the server.
func BenchmarkActivation(b *testing.B) {
	s := newSeamless(b)
	a := newArrivals(s)
	manager := a.manager()
	old := s.spawn(manager())
	s.await("", 0)
	a.begin()
	for b.Loop() {
		s.upgrade()
		s.signal(old.Process.Pid, syscall.SIGTERM)
		if err := old.Wait(); err != nil {
			b.Fatal(err)
		}
		old = s.spawn(manager())
		s.await("", 0)
		a.more()
	}
	a.end(b)
}

// upgrade replaces the program by a copy of it, as a package manager does: by renaming.
func (s *seamless) upgrade() {
	s.Helper()
	text, err := os.ReadFile(process.Binary(s, ".."))
	if err != nil {
		s.Fatal(err)
	}
	next := s.program + ".next"
	if err := os.WriteFile(next, text, 0o755); err != nil {
		s.Fatal(err)
	}
	if err := os.Rename(next, s.program); err != nil {
		s.Fatal(err)
	}
}

// Arrivals are requests at a constant rate to three listeners of a server.
type arrivals struct {
	*seamless
	config                    string
	plain, encrypted, proxied string // addresses
	transport                 *http.Transport
	keptPlain                 chan net.Conn
	keptEncrypted             chan *http.ClientConn
	cancel                    context.CancelFunc
	working                   sync.WaitGroup
	answered, failed          [kinds]atomic.Int64
	longest                   atomic.Int64 // nanoseconds
	first                     atomic.Pointer[string]
}

// The kinds of arrivals.
const (
	newPlain = iota
	keptPlain
	newProxied
	newEncrypted
	keptEncrypted
	kinds
)

// keptConnections is how many connections of a kind are kept: each is used more often than the server ends idle ones.
const keptConnections = 8

func newArrivals(s *seamless) *arrivals {
	s.Helper()
	a := &arrivals{
		seamless: s, config: filepath.Join(s.dir, "isr.yaml"), keptPlain: make(chan net.Conn, keptConnections), keptEncrypted: make(chan *http.ClientConn, keptConnections),
		transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
	}
	for range keptConnections {
		a.keptPlain <- nil
		a.keptEncrypted <- nil
	}
	a.plain = s.address
	for _, address := range []*string{&a.encrypted, &a.proxied} {
		var err error
		if *address, err = testbed.FreeAddress(); err != nil {
			s.Fatal(err)
		}
	}
	cert, key := filepath.Join(s.dir, "crt"), filepath.Join(s.dir, "key")
	testbed.WriteCertificate(s, cert, key, 1, "127.0.0.1")
	text := fmt.Sprintf("hosts: ['*']\nlisten:\n"+
		"  - {address: '%s', redirect_https: false, trusted_proxies: [loopback]}\n"+
		"  - {address: '%s', trusted_proxies: [loopback], tls: [{cert: %s, key: %s}]}\n"+
		"  - {address: '%s', redirect_https: false, trusted_proxies: [loopback], proxy_protocol: true}\n"+
		"admin: {address: none}\nstore: {data: %s}\norigins: {site: {url: '%s'}}\n",
		a.plain, a.encrypted, cert, key, a.proxied, filepath.Join(s.dir, "data"), s.origin.server.URL)
	if err := os.WriteFile(a.config, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	return a
}

func (a *arrivals) command() *exec.Cmd {
	cmd := exec.Command(a.program, "serve", "--config", a.config)
	cmd.Stdout, cmd.Stderr = a.log, a.log
	return cmd
}

// manager returns commands that are given the sockets of all addresses.
func (a *arrivals) manager() func() *exec.Cmd {
	a.Helper()
	var sockets []net.Listener
	for _, address := range []string{a.plain, a.encrypted, a.proxied} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			a.Fatal(err)
		}
		a.Cleanup(func() { _ = l.Close() })
		sockets = append(sockets, l)
	}
	return func() *exec.Cmd { return a.activated(a.command(), sockets...) }
}

// begin begins the arrivals. They do not wait for each other.
func (a *arrivals) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	a.cancel = cancel
	a.Cleanup(cancel)
	a.working.Go(func() {
		tick := time.NewTicker(time.Second / arrivalRate)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			a.working.Go(func() { a.arrive(n % kinds) })
		}
	})
}

// arrive sends a request of a kind, once.
func (a *arrivals) arrive(kind int) {
	began := time.Now()
	err := a.send(kind)
	for took := int64(time.Since(began)); ; {
		if longest := a.longest.Load(); took <= longest || a.longest.CompareAndSwap(longest, took) {
			break
		}
	}
	if err != nil {
		text := fmt.Sprintf("%s: a request of kind %d: %v", time.Now().UTC().Format("15:04:05.000000"), kind, err)
		a.first.CompareAndSwap(nil, &text)
		a.failed[kind].Add(1)
		return
	}
	a.answered[kind].Add(1)
}

func (a *arrivals) send(kind int) error {
	switch kind {
	case keptPlain:
		conn := <-a.keptPlain
		conn, err := a.ask(conn, a.plain, "", true)
		a.keptPlain <- conn
		return err
	case newPlain:
		_, err := a.ask(nil, a.plain, "", false)
		return err
	case newProxied:
		_, err := a.ask(nil, a.proxied, "PROXY TCP4 192.0.2.7 127.0.0.1 1 2\r\n", false)
		return err
	case keptEncrypted:
		conn := <-a.keptEncrypted
		conn, err := a.askEncrypted(conn)
		a.keptEncrypted <- conn
		return err
	default:
		conn, err := a.askEncrypted(nil)
		if conn != nil {
			_ = conn.Close()
		}
		return err
	}
}

// ask sends a request by HTTP/1.1, by conn or, if it is nil, a new connection. It returns the connection if it can be used again.
func (a *arrivals) ask(conn net.Conn, address, before string, keep bool) (net.Conn, error) {
	if conn == nil {
		var err error
		if conn, err = net.Dial("tcp", address); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(conn, before); err != nil {
			return nil, err
		}
	}
	if _, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: a.test\r\n%s\r\n", map[bool]string{false: "Connection: close\r\n"}[keep]); err != nil {
		_ = conn.Close()
		return nil, err
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err == nil {
		err = complete(res)
	}
	if err != nil || !keep || res.Close {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// askEncrypted is ask by HTTP/2.
func (a *arrivals) askEncrypted(conn *http.ClientConn) (*http.ClientConn, error) {
	if conn != nil && (conn.Err() != nil || conn.Available() == 0) {
		_ = conn.Close()
		conn = nil
	}
	if conn == nil {
		var err error
		if conn, err = a.transport.NewClientConn(context.Background(), "https", a.encrypted); err != nil {
			return nil, err
		}
	}
	r, err := http.NewRequest(http.MethodGet, "https://"+a.encrypted+"/", http.NoBody)
	if err != nil {
		return conn, err
	}
	r.Host = "a.test"
	res, err := conn.RoundTrip(r)
	if err == nil {
		err = complete(res)
	}
	if err == nil && res.ProtoMajor != 2 {
		err = fmt.Errorf("answered by %s", res.Proto)
	}
	return conn, err
}

// complete reads a response, and fails unless it is a whole page.
func complete(res *http.Response) error {
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err == nil && (res.StatusCode != http.StatusOK || renderingOf("/", string(body)) == 0) {
		err = fmt.Errorf("received %s with %.100q", res.Status, body)
	}
	return err
}

// more waits until more requests of each kind are answered.
func (a *arrivals) more() {
	a.Helper()
	for kind := range kinds {
		before := a.answered[kind].Load()
		await(a.TB, "requests to be answered", patience, func() bool { return a.answered[kind].Load() > before+5 || a.first.Load() != nil })
	}
}

// end ends the arrivals, of which none must have failed.
func (a *arrivals) end(b *testing.B) {
	b.Helper()
	a.cancel()
	a.working.Wait()
	var answered, failed int64
	for kind := range kinds {
		answered, failed = answered+a.answered[kind].Load(), failed+a.failed[kind].Load()
	}
	b.ReportMetric(float64(answered)/b.Elapsed().Seconds(), "answered/s")
	b.ReportMetric(float64(failed), "failed")
	b.ReportMetric(time.Duration(a.longest.Load()).Seconds()*1000, "longest-ms")
	if text := a.first.Load(); text != nil {
		b.Errorf("%d requests were refused or cut off; the first at %s", failed, *text)
	}
}
