package server

import (
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// Without a configuration file, SIGHUP only opens the access log again.
func TestHangupWithoutFile(t *testing.T) {
	opened := make(chan struct{}, 1)
	r := &reloader{reopenLogs: func() bool { opened <- struct{}{}; return true }, log: slog.New(slog.DiscardHandler)}
	hangups, stop := CatchHangups()
	defer stop()
	defer hangups.Each(t.Context(), r.signaled)()
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	<-opened
}

// A SIGHUP that comes before the server is ready is kept until it is, and logged if there is no file.
func TestHangupBeforeReady(t *testing.T) {
	hangups, stop := CatchHangups()
	defer stop()
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	said := make(lines, 1)
	r := &reloader{reopenLogs: func() bool { return false }, log: slog.New(slog.NewTextHandler(said, nil))}
	defer hangups.Each(t.Context(), r.signaled)()
	if line := <-said; !strings.Contains(line, "SIGHUP has reloaded nothing") {
		t.Errorf("logged %s", line)
	}
}

// lines are what is written to a log.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// A collector and a reader that do not answer delay a shutdown once, not one after the other.
func TestInstrumentsEndTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Int32
		slow := func() { time.Sleep(5 * time.Second); ended.Add(1) }
		i := &instruments{closers: []func(){slow, slow, slow}}
		began := time.Now()
		i.close()
		if took := time.Since(began); took != 5*time.Second || ended.Load() != 3 {
			t.Errorf("%d instruments ended in %v", ended.Load(), took)
		}
	})
}
