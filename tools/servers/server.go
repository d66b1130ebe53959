package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	startTime = 3 * time.Minute // from the start until a server listens, at most
	endTime   = 5 * time.Second // from SIGTERM until a server is killed
	logTail   = 2_000           // bytes of its log that an error shows
)

// A server is a program that listens on a port.
type server struct {
	name string
	port int
	cmd  *exec.Cmd

	log   string        // the name of its log
	ended chan struct{} // closed after exit; nil if it was not started
}

// start starts the program. Signals to the process group of ./test do not reach it.
func (s *server) start(logs string) error {
	s.log = filepath.Join(logs, s.name+".log")
	out, err := os.Create(s.log)
	if err != nil {
		return err
	}
	defer out.Close()
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.SysProcAttr = out, out, &syscall.SysProcAttr{Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	s.ended = make(chan struct{})
	go func() {
		_ = s.cmd.Wait() // its log says why
		close(s.ended)
	}()
	return nil
}

// await waits until the server accepts connections.
func (s *server) await(ctx context.Context) error {
	deadline := time.After(startTime)
	for !listening(s.port) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.ended:
			return fmt.Errorf("%s exited (%s) before it listened on port %d; its log ends:\n%s", s.name, s.cmd.ProcessState, s.port, s.tail())
		case <-deadline:
			return fmt.Errorf("%s did not listen on port %d within %s; its log ends:\n%s", s.name, s.port, startTime, s.tail())
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

func (s *server) tail() string {
	text, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-logTail):])
}

// stop ends the program and waits for that.
func (s *server) stop() {
	if s.ended == nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-s.ended:
	case <-time.After(endTime):
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
}

// ports draws ports that are free. They are below those that systems assign to outgoing
// connections: one of these could take a port before its server does.
type ports struct{ next int }

const firstPort, lastPort = 20_000, 29_999

func newPorts() *ports { return &ports{next: firstPort + rand.IntN(lastPort-firstPort+1)} }

// free returns a port, or 0 if none is free.
func (p *ports) free() int {
	for range lastPort - firstPort + 1 {
		port := p.next
		if p.next++; p.next > lastPort {
			p.next = firstPort
		}
		if l, err := net.Listen("tcp", address(port)); err == nil {
			_ = l.Close()
			return port
		}
	}
	return 0
}

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

func listening(port int) bool {
	conn, err := net.Dial("tcp", address(port))
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
