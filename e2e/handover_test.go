package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/facetheory/isr/e2e/internal/process"
	"github.com/facetheory/isr/internal/testbed"
)

// SIGUSR2 has a new process take over, again and again, under visitors with new connections and with kept ones: no connection is
// refused, and no request is cut off.
func TestHandover(t *testing.T) {
	t.Parallel()
	s := newSeamless(t)
	s.spawn(s.command())
	first := s.await("", 0)
	v := s.visitors()
	second := s.handOver(first)
	v.more(t)
	s.handOver(second)
	v.more(t)
	v.end(t)
	if n := s.origin.count("/"); n != 1 {
		t.Errorf("the origin has rendered the page %d times, want once: the store stays", n)
	}
}

// A new process that refuses its configuration, or fails once it has the store, leaves the visitors to the old one.
func TestFailedHandover(t *testing.T) {
	t.Parallel()
	s := newSeamless(t)
	s.spawn(s.command())
	pid := s.await("", 0)
	v := s.visitors()
	s.replaceProgram(`exec "$REAL" serve --origin http://127.0.0.1:1 --revalidate never`)
	s.signal(pid, syscall.SIGUSR2)
	s.await("failed to hand over: still serving", 0)
	v.more(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s.replaceProgram(fmt.Sprintf(`exec "$REAL" "$@" --admin %s`, taken.Addr()))
	s.signal(pid, syscall.SIGUSR2)
	s.await("the new process failed to start: serving again", 0)
	s.await("", 0)
	v.more(t)
	s.replaceProgram(`exec "$REAL" "$@"`)
	s.handOver(pid)
	v.more(t)
	v.end(t)
}

// A service manager that keeps the sockets restarts the server without a refused connection.
func TestSocketActivation(t *testing.T) {
	t.Parallel()
	s := newSeamless(t)
	l, err := net.Listen("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	manager := func() *exec.Cmd { return s.activated(s.command(), l) }
	old := s.spawn(manager())
	s.await("", 0)
	v := s.visitors()
	for range 2 {
		s.signal(old.Process.Pid, syscall.SIGTERM)
		if err := old.Wait(); err != nil {
			t.Fatal(err)
		}
		old = s.spawn(manager())
		s.await("", 0)
		v.more(t)
	}
	s.signal(old.Process.Pid, syscall.SIGTERM)
	if err := old.Wait(); err != nil { // the visitors wait in the queue of the socket
		t.Fatal(err)
	}
	other := manager()
	other.Args = append(other.Args, "--listen", "127.0.0.1:1")
	if err := s.spawn(other).Wait(); err == nil {
		t.Error("a server started without the socket that it was given")
	}
	s.await("the service manager has handed in the socket isr.socket ("+s.address+"), which is no address of this server, whose addresses are 127.0.0.1:1; make ListenStream= of the socket unit", 0)
	s.spawn(manager())
	v.more(t)
	v.end(t)
}

// A seamless is a server whose processes follow each other at one address.
type seamless struct {
	testing.TB
	origin  *origin
	dir     string
	program string // what is started, a link or a script
	address string
	log     *os.File // of all processes
	read    int      // of the log
}

func newSeamless(t testing.TB) *seamless {
	t.Helper()
	s := &seamless{TB: t, origin: newOrigin(t), dir: t.TempDir()}
	s.origin.set("/", page(3600, 0))
	s.program = filepath.Join(s.dir, "isr")
	if err := os.Symlink(process.Binary(t, ".."), s.program); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.address, err = testbed.FreeAddress(); err != nil {
		t.Fatal(err)
	}
	if s.log, err = os.Create(filepath.Join(s.dir, "log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.stop()
		text, _ := os.ReadFile(s.log.Name())
		if t.Failed() {
			t.Logf("the processes wrote:\n%s", text)
		}
		if strings.Contains(string(text), "panic") {
			t.Error("the log contains a panic")
		}
	})
	return s
}

// command returns the command of a process. Its output goes to a file: a pipe would be open as long as its successors are.
func (s *seamless) command() *exec.Cmd {
	cmd := exec.Command(s.program, "serve", "--origin", s.origin.server.URL, "--data", filepath.Join(s.dir, "data"))
	cmd.Env = append(os.Environ(), "ISR_ADMIN=none", "ISR_STORE_TIMEOUT=1m", "ISR_LISTEN="+s.address, "REAL="+process.Binary(s, "..")) // a busy machine is slow
	cmd.Stdout, cmd.Stderr = s.log, s.log
	return cmd
}

// activated returns a command that is given sockets, as systemd gives those of isr.socket.
func (s *seamless) activated(cmd *exec.Cmd, sockets ...net.Listener) *exec.Cmd {
	s.Helper()
	for _, l := range sockets {
		file, err := l.(*net.TCPListener).File()
		if err != nil {
			s.Fatal(err)
		}
		s.Cleanup(func() { _ = file.Close() })
		cmd.ExtraFiles = append(cmd.ExtraFiles, file)
	}
	names := strings.Repeat(":isr.socket", len(sockets))[1:]
	cmd.Args = append([]string{"sh", "-c", `export LISTEN_PID=$$; exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
	cmd.Path, cmd.Env = "/bin/sh", append(cmd.Environ(), fmt.Sprintf("LISTEN_FDS=%d", len(sockets)), "LISTEN_FDNAMES="+names)
	return cmd
}

func (s *seamless) spawn(cmd *exec.Cmd) *exec.Cmd {
	s.Helper()
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	return cmd
}

// stop kills the process that serves, which need not be a child of this one.
func (s *seamless) stop() {
	if pid := s.pid(); pid != 0 {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
}

// pid returns the id of the process that has the data folder; 0 if there is none.
func (s *seamless) pid() int {
	text, _ := os.ReadFile(filepath.Join(s.dir, "data", "isr.lock"))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return pid
}

func (s *seamless) signal(pid int, sig syscall.Signal) {
	s.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		s.Fatal(err)
	}
}

// replaceProgram makes the program a shell script.
func (s *seamless) replaceProgram(script string) {
	s.Helper()
	next := s.program + ".next"
	if err := os.WriteFile(next, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		s.Fatal(err)
	}
	if err := os.Rename(next, s.program); err != nil {
		s.Fatal(err)
	}
}

// await waits for a text in what the processes have written since the last call, "serving" if it is empty, and
// for another process than old. It returns the process that has the data folder.
func (s *seamless) await(text string, old int) (pid int) {
	s.Helper()
	if text == "" {
		text = `msg="serving http://`
	}
	await(s.TB, text, patience, func() bool {
		all, _ := os.ReadFile(s.log.Name())
		at := strings.Index(string(all[s.read:]), text)
		if at < 0 {
			return false
		}
		s.read += at + len(text)
		return true
	})
	if pid = s.pid(); pid != 0 && pid == old {
		s.Fatalf("the process %d still has the data folder", old)
	}
	return pid
}

// handOver sends SIGUSR2 to a process, and waits until another one serves.
func (s *seamless) handOver(old int) (pid int) {
	s.Helper()
	s.signal(old, syscall.SIGUSR2)
	s.await("handing over to a new process", 0)
	s.await("", old)
	return s.await("the new process serves", old)
}

// Visitors read a page all the time until they are stopped.
type visitors struct {
	cancel   context.CancelFunc
	reading  sync.WaitGroup
	answered []atomic.Int64 // by visitor
	failed   atomic.Pointer[string]
}

func (s *seamless) visitors() *visitors {
	get(s.TB, "http://"+s.address+"/")
	ctx, cancel := context.WithCancel(context.Background())
	v := &visitors{cancel: cancel, answered: make([]atomic.Int64, 8)}
	s.Cleanup(v.stop)
	for i := range v.answered {
		v.reading.Go(func() {
			if err := v.read(ctx, s.address, i%2 == 0, &v.answered[i]); err != nil {
				text := fmt.Sprintf("%s: visitor %d: %v", time.Now().UTC().Format("15:04:05.000000"), i, err)
				v.failed.CompareAndSwap(nil, &text)
			}
		})
	}
	return v
}

// mostPause is how long a server that ends waits for the next request of a connection. A visitor that a busy machine has held up
// for longer may find its connection closed.
const mostPause = time.Second

// read reads the page until the context is done, by connections of one request each, or as many as the server allows. Unlike
// clients of HTTP it does not try again, unless it was held up.
func (v *visitors) read(ctx context.Context, address string, keep bool, answered *atomic.Int64) error {
	var conn net.Conn
	var last time.Time // when the connection, or its last request, began
	for ctx.Err() == nil {
		if conn == nil {
			var err error
			last = time.Now()
			if conn, err = net.Dial("tcp", address); err != nil {
				return err
			}
		}
		began := time.Now()
		sent, end, err := request(conn, address, keep)
		if err != nil || end || !keep {
			_ = conn.Close()
			conn = nil
		}
		switch {
		case err == nil:
			answered.Add(1)
		case !errors.Is(err, errNoResponse) || sent.Sub(last) < mostPause:
			return err
		}
		last = began
	}
	return nil
}

var errNoResponse = errors.New("there is no response")

// request reads the page once, and reports when it was asked for, and whether the server ends the connection.
func request(conn net.Conn, address string, keep bool) (sent time.Time, end bool, err error) {
	_ = conn.SetDeadline(time.Now().Add(patience)) // after a test has failed, nobody accepts the connection
	_, err = fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\n%s\r\n", address, map[bool]string{false: "Connection: close\r\n"}[keep])
	sent = time.Now()
	if err != nil {
		return sent, false, errors.Join(errNoResponse, err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return sent, false, errors.Join(errNoResponse, err)
	}
	body, err := io.ReadAll(res.Body)
	if err == nil && (res.StatusCode != http.StatusOK || string(body) != bodyOf("/", 1)) {
		err = fmt.Errorf("received %s with %q", res.Status, body)
	}
	return sent, res.Close, err
}

// more waits until each visitor has read more pages.
func (v *visitors) more(t *testing.T) {
	t.Helper()
	for i := range v.answered {
		before := v.answered[i].Load()
		await(t, "visitors to be answered", patience, func() bool { return v.answered[i].Load() > before+20 || v.failed.Load() != nil })
	}
}

func (v *visitors) stop() {
	v.cancel()
	v.reading.Wait()
}

// end stops the visitors, who must all have been answered.
func (v *visitors) end(t *testing.T) {
	t.Helper()
	v.stop()
	if text := v.failed.Load(); text != nil {
		t.Error(*text)
	}
}
