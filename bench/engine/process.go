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

// patience is how long a server may take to accept its first connection.
const patience = 30 * time.Second

// A server is a running process that accepts connections.
type server struct {
	address string
	pid     int
	stop    func() error // may be called again
}

// start runs a server that listens on address, and returns when it accepts connections.
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
		_ = cmd.Wait() // stopped by stop, or its log says why
		close(exited)
	}()
	s := server{address: address, pid: cmd.Process.Pid, stop: sync.OnceValue(func() error {
		err := cmd.Process.Signal(syscall.SIGTERM)
		<-exited
		return err
	})}
	if err := s.wait(ctx, exited); err != nil {
		return server{}, errors.Join(fmt.Errorf("%w; its output:\n%s", err, log.String()), s.stop())
	}
	return s, nil
}

// wait dials until the server accepts a connection.
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
			return errors.New("the server has exited")
		case <-ctx.Done():
			return fmt.Errorf("the server does not accept connections: %w", err)
		case <-time.After(time.Millisecond / 2):
		}
	}
}

// freeAddress returns an address that is not in use.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// port returns the port of an address made by freeAddress.
func port(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}
