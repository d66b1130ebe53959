package accesslog

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr/internal/testbed"
)

// A gate is an output that takes nothing until it is opened, then what fail says.
type gate struct {
	open chan struct{}
	mu   sync.Mutex
	fail error // guarded by mu
	take int   // guarded by mu: the bytes that a failing write takes
	text bytes.Buffer
}

func (g *gate) Write(p []byte) (int, error) {
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fail != nil {
		n := min(g.take, len(p))
		g.text.Write(p[:n])
		return n, g.fail
	}
	return g.text.Write(p)
}

func (g *gate) set(fail error, take int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fail, g.take = fail, take
}

func newGate() *gate { return &gate{open: make(chan struct{})} }

// An output that does not take lines costs lines, which are counted, and no waiting.
func TestBlockedOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		l, err := New(Config{Output: g})
		if err != nil {
			t.Fatal(err)
		}
		const requests = 50_000
		began := time.Now()
		for range requests {
			l.Done(hit())
		}
		if took := time.Since(began); took > 0 || l.Dropped() == 0 {
			t.Errorf("took %s, dropped %d", took, l.Dropped())
		}
		close(g.open)
		l.Close()
		if lines := int64(strings.Count(g.text.String(), "\n")); lines+l.Dropped() != requests || g.text.Len() > 2*maxBuffer {
			t.Errorf("%d lines in %d bytes, dropped %d of %d", lines, g.text.Len(), l.Dropped(), requests)
		}
		l.Done(hit()) // too late
		if l.Close(); int64(strings.Count(g.text.String(), "\n"))+l.Dropped() != requests+1 {
			t.Errorf("dropped %d", l.Dropped())
		}
	})
}

func TestCloseGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, log := newGate(), new(testbed.Log)
		l, err := New(Config{Output: g, Logger: slog.New(slog.NewTextHandler(log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		l.Done(hit())
		began := time.Now()
		l.Close()
		if took := time.Since(began); took != closeTime || !strings.Contains(log.String(), "in time") {
			t.Errorf("took %s: %s", took, log)
		}
		close(g.open)
	})
}

func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := new(testbed.Log)
		l, err := New(Config{Output: out})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		time.Sleep(time.Millisecond)
		l.Done(hit())
		if synctest.Wait(); out.String() != "" {
			t.Error("one line is written at once")
		}
		time.Sleep(flushEvery)
		if synctest.Wait(); strings.Count(out.String(), "\n") != 1 {
			t.Errorf("got %q", out)
		}
	})
}

// A write error is reported once, until lines can be written again. A torn line ends before
// the next one begins.
func TestWriteErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, log := newGate(), new(testbed.Log)
		close(g.open)
		l, err := New(Config{Output: g, Logger: slog.New(slog.NewTextHandler(log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		for _, fail := range []error{errors.New("disk full"), errors.New("disk full"), nil, nil, errors.New("disk broken")} {
			g.set(fail, 10)
			l.Done(hit())
			time.Sleep(time.Second)
		}
		g.set(nil, 0)
		l.Close()
		if l.Dropped() != 3 || strings.Count(log.String(), "disk full") != 1 || strings.Count(log.String(), "written again") != 1 || strings.Count(log.String(), "disk broken") != 1 {
			t.Errorf("dropped %d: %s", l.Dropped(), log)
		}
		lines := strings.Split(g.text.String(), "\n")
		if len(lines) != 5 || lines[0] != `{"time":"2` || !strings.HasPrefix(lines[2], `{"time":"2026`) || lines[4] != `{"time":"2` {
			t.Errorf("got %q", lines)
		}
	})
}

func TestSample(t *testing.T) {
	const n, rate = 20_000, 10
	failed, aborted, miss, last := hit(), hit(), exchange(), hit()
	failed.Status, aborted.Aborted = 503, true
	var out bytes.Buffer
	l, err := New(Config{Output: &out, SampleHits: rate})
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		l.Done(last)
	}
	l.Done(failed)
	l.Done(aborted)
	l.Done(miss)
	l.Close()
	sampled := strings.Count(out.String(), `"isr.sample_rate":10}`)
	// The standard deviation is 42: ten of them are never exceeded.
	if expected := n / rate; sampled < expected-420 || sampled > expected+420 || l.Dropped() > 0 {
		t.Errorf("%d of %d hits have lines; dropped %d", sampled, n, l.Dropped())
	}
	if all := strings.Count(out.String(), "\n"); all != sampled+3 {
		t.Errorf("%d lines, of which %d are sampled", all, sampled)
	}
}

// Lines go to the renamed file until the path is opened again, and none is lost.
func TestReopen(t *testing.T) {
	log := new(testbed.Log)
	dir := filepath.Join(t.TempDir(), "logs")
	path := filepath.Join(dir, "access.log")
	cfg := Config{Path: path, Logger: slog.New(slog.NewTextHandler(log, nil))}
	if _, err := New(cfg); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "folder must exist") {
		t.Errorf("without a folder: %v", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l.Done(hit())
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	l.Done(hit())
	l.Reopen()
	await(t, func() bool { _, err := os.Stat(path); return err == nil })
	l.Done(hit())
	l.Close()
	old, next := read(t, path+".1"), read(t, path)
	if !strings.HasPrefix(old, "before\n{") || strings.Count(old, "\n") != 3 || strings.Count(next, "\n") != 1 {
		t.Errorf("the old file has %q, the new one %q", old, next)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm()&^0o640 != 0 || log.String() != "" {
		t.Errorf("the file has the mode %v; log: %s", info.Mode(), log)
	}
}

func TestReopenFails(t *testing.T) {
	log := new(testbed.Log)
	dir := filepath.Join(t.TempDir(), "logs")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := New(Config{Path: filepath.Join(dir, "access.log"), Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	l.Reopen()
	await(t, func() bool { return strings.Contains(log.String(), "goes on in the old file") })
	l.Done(hit())
	l.Close()
	if got := read(t, filepath.Join(dir+".old", "access.log")); strings.Count(got, "\n") != 1 {
		t.Errorf("the old file has %q", got)
	}
}

// A pipe that no program reads must not keep a server from starting, or from writing the log
// after a reload.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{Path: path}); err == nil || !strings.Contains(err.Error(), "reads the named pipe") {
		t.Fatalf("got %v", err)
	}
	reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	l, err := New(Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	l.Done(hit())
	l.Close()
	if text, err := io.ReadAll(reader); err != nil || bytes.Count(text, []byte("\n")) != 1 {
		t.Errorf("%v: the reader got %q", err, text)
	}
	if err := reader.Close(); err != nil {
		t.Error(err)
	}
}

func TestConfig(t *testing.T) {
	for want, cfg := range map[string]Config{
		`format "xml"`:   {Output: io.Discard, Format: "xml"},
		"neither a path": {},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// await polls a condition on the file system or a log, for at most ten seconds.
func await(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain")
		}
	}
}

// A flood of refused requests writes ten lines a second; other requests have theirs.
func TestRefusedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l, err := New(Config{Output: &out})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			for range 1000 {
				x := hit()
				x.Hit, x.Refused, x.Detail, x.Status = false, true, "denied", 403
				l.Done(x)
			}
			l.Done(hit())
			time.Sleep(time.Second)
		}
		l.Close()
		if refused, all := strings.Count(out.String(), `"denied"`), strings.Count(out.String(), "\n"); refused != 3*refusedLines || all != refused+3 {
			t.Errorf("%d lines, %d of refused requests", all, refused)
		}
	})
}
