// Package process runs the servers that benchmarks compare, each in a process of its own.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	patience = 30 * time.Second // until a server is ready
	farewell = 10 * time.Second // until a stopped server is killed
)

// BuildISR builds the command isr into a folder and returns its path. root is the root of the
// repository.
func BuildISR(ctx context.Context, root, dir string) (string, error) {
	binary := filepath.Join(dir, "isr")
	if out, err := exec.CommandContext(ctx, "go", "build", "-C", root, "-o", binary, "./cmd/isr").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return binary, nil
}

// FreeAddress returns an address of this machine that is not in use.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// A Process is a running server.
type Process struct {
	ID     int
	exited chan struct{}
	stop   func() error
}

// Start runs a command made with [exec.CommandContext], and returns when ready succeeds, which
// it calls again and again for up to 30 seconds.
func Start(ctx context.Context, cmd *exec.Cmd, ready func(context.Context) error) (*Process, error) {
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = farewell
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{ID: cmd.Process.Pid, exited: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // stopped by Stop, or its log says why
		close(p.exited)
	}()
	p.stop = sync.OnceValue(func() error {
		err := cmd.Cancel()
		<-p.exited
		return err
	})
	if err := p.wait(ctx, ready); err != nil {
		err = errors.Join(err, p.Stop())
		return nil, fmt.Errorf("%s: %w; its output:\n%s", cmd.Path, err, log.String())
	}
	return p, nil
}

func (p *Process) wait(ctx context.Context, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return errors.New("the server has exited")
		case <-ctx.Done():
			return fmt.Errorf("the server is not ready: %w", err)
		case <-time.After(time.Millisecond / 2):
		}
	}
}

// Stop ends the server and waits for its end. It may be called again.
func (p *Process) Stop() error { return p.stop() }

// Accepts returns a condition for [Start]: the server accepts connections at an address.
func Accepts(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// Answers returns a condition for [Start]: a GET request gets a response with a status.
func Answers(url string, status int) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		if err := res.Body.Close(); err != nil {
			return err
		}
		if res.StatusCode != status {
			return fmt.Errorf("%s: %s", url, res.Status)
		}
		return nil
	}
}
