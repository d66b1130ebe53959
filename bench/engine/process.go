package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// patience is how long a server may take to its first answer.
const patience = 30 * time.Second

// A server is one process, which answers.
type server struct {
	address string
	pid     int
	stop    func() error // may be called again
}

// start runs a server, which is to listen on address, and returns when it has
// taken a connection.
func start(ctx context.Context, cmd *exec.Cmd, address string) (server, error) {
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		return server{}, err
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it was told to stop, or its log says why it did
		close(exited)
	}()
	s := server{address: address, pid: cmd.Process.Pid, stop: sync.OnceValue(func() error {
		err := cmd.Process.Signal(syscall.SIGTERM)
		<-exited
		return err
	})}
	if err := s.wait(ctx, exited); err != nil {
		return server{}, errors.Join(fmt.Errorf("%w; it wrote:\n%s", err, log.String()), s.stop())
	}
	return s, nil
}

// wait knocks until the server opens.
func (s server) wait(ctx context.Context, exited <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-exited:
			return errors.New("the server has ended by itself")
		case <-ctx.Done():
			return fmt.Errorf("the server does not answer: %w", err)
		case <-time.After(time.Millisecond / 2):
		}
	}
}

// freeAddress is one that nobody listens on now.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// port is that of an address of this package, which always has one.
func port(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}
