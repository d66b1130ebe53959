package main

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/facetheory/isr/cmd/isr/cli"
)

// A pseudoterminal has both ends of a terminal, and collects what is written to it.
type pseudoterminal struct {
	ours, theirs *os.File

	mu      sync.Mutex
	written strings.Builder // guarded by mu
	change  chan struct{}   // has an element after each write
}

func newPseudoterminal(t *testing.T) *pseudoterminal {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	err = errors.Join(err, unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0))
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &pseudoterminal{ours: ours, theirs: theirs, change: make(chan struct{}, 1)}
	go p.collect()
	t.Cleanup(func() { _, _ = theirs.Close(), ours.Close() })
	return p
}

func (p *pseudoterminal) collect() {
	part := make([]byte, 4096)
	for {
		n, err := p.ours.Read(part)
		p.mu.Lock()
		p.written.Write(part[:n])
		p.mu.Unlock()
		select {
		case p.change <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// await waits until the terminal has got a text since the last call.
func (p *pseudoterminal) await(t *testing.T, text string) (got string) {
	t.Helper()
	late := time.After(5 * time.Minute)
	for {
		p.mu.Lock()
		got = p.written.String()
		if strings.Contains(got, text) {
			p.written.Reset()
			p.mu.Unlock()
			return got
		}
		p.mu.Unlock()
		select {
		case <-p.change:
		case <-late:
			t.Fatalf("the terminal has no %q: %.2000q", text, got)
		}
	}
}

func (p *pseudoterminal) resize(t *testing.T, width, height uint16) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(p.ours.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: width, Row: height}); err != nil {
		t.Fatal(err)
	}
}

func (p *pseudoterminal) settings(t *testing.T) unix.Termios {
	t.Helper()
	s, err := unix.IoctlGetTermios(int(p.theirs.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *s
}

// The screen is redrawn at each interval and when its size changes, shows that the server is gone,
// ends with q, and leaves the terminal as it was.
func TestTopOnATerminal(t *testing.T) {
	p := newPseudoterminal(t)
	p.resize(t, 100, 40)
	before := p.settings(t)
	var gone sync.Mutex
	broken := false
	show := func() (topFrame, error) {
		gone.Lock()
		defer gone.Unlock()
		if broken {
			return topFrame{}, errors.New("connection refused")
		}
		return frame(), nil
	}
	c := &topCommand{Interval: cli.Span(minInterval)}
	ended := make(chan error, 1)
	go func() { ended <- c.watch(t.Context(), &screen{out: p.theirs, in: p.theirs, color: true}, show) }()
	p.await(t, enterScreen+cursorHome)
	p.await(t, "MOST REQUESTED PAGES")
	if p.settings(t).Lflag&unix.ICANON != 0 {
		t.Error("keys are not read one by one")
	}
	p.resize(t, 30, 40)
	if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil {
		t.Fatal(err)
	}
	p.await(t, "isr top  web-1:1  v1.2.3  up …")
	gone.Lock()
	broken = true
	gone.Unlock()
	p.await(t, "the server does not answer:")
	if _, err := p.ours.Write([]byte("xq")); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	p.await(t, leaveScreen)
	if after := p.settings(t); !reflect.DeepEqual(after, before) {
		t.Errorf("the terminal has %+v, and had %+v", after, before)
	}
}
