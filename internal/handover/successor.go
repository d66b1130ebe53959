package handover

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// variable is the environment variable with which a process tells its successor the descriptors of the channel and of the
// lock: "5,6". The sockets are in LISTEN_FDS, as those of a service manager. LISTEN_PID cannot be set before the successor
// has a process id.
const variable = "LISTEN_PREDECESSOR"

// firstFD is the first descriptor that a process is given (sd_listen_fds(3)).
const firstFD = 3

// The messages, each a line.
const (
	prepared = "prepared"
	proceed  = "go"
	serving  = "serving"
)

// A channel is an end of the connection between a process and its successor.
type channel struct {
	conn net.Conn
	read *bufio.Reader
}

func newChannel(fd int) (channel, error) {
	file := os.NewFile(uintptr(fd), "handover")
	if file == nil {
		return channel{}, fmt.Errorf("descriptor %d is not open", fd)
	}
	defer func() { _ = file.Close() }() // FileConn has a duplicate
	conn, err := net.FileConn(file)
	if err != nil {
		return channel{}, err
	}
	return channel{conn: conn, read: bufio.NewReaderSize(conn, 64)}, nil
}

func (c channel) send(message string) error {
	_, err := io.WriteString(c.conn, message+"\n")
	return err
}

// expect waits for a message until the context is done.
func (c channel) expect(ctx context.Context, message string) error {
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	line, err := c.read.ReadString('\n')
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	case strings.TrimSuffix(line, "\n") != message:
		return fmt.Errorf("received %q, expected %q", line, message)
	}
	return nil
}

// A Predecessor is the process that has started this one as its successor.
type Predecessor struct{ channel channel }

// receivePredecessor takes the channel and the lock out of the environment, if a predecessor has started this process.
func (s *Sockets) receivePredecessor() error {
	text, ok := os.LookupEnv(variable)
	if !ok {
		return nil
	}
	if err := errors.Join(os.Unsetenv(variable), os.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid()))); err != nil {
		return err
	}
	var channelFD, lockFD int
	if _, err := fmt.Sscanf(text, "%d,%d", &channelFD, &lockFD); err != nil || channelFD < firstFD || lockFD <= channelFD {
		return fmt.Errorf("%s=%q is not what a predecessor sets; unset it", variable, text)
	}
	unix.CloseOnExec(channelFD)
	unix.CloseOnExec(lockFD)
	c, err := newChannel(channelFD)
	if err != nil {
		return fmt.Errorf("the channel to the predecessor: %w", err)
	}
	s.predecessor, s.lock = &Predecessor{c}, os.NewFile(uintptr(lockFD), "isr.lock")
	return nil
}

// Await tells the predecessor, if there is one, that the configuration of this process is valid, and waits until it has
// closed its store. If the predecessor dies first, its store is closed, too.
func (s *Sockets) Await(ctx context.Context) error {
	if s.predecessor == nil {
		return nil
	}
	c := s.predecessor.channel
	err := c.send(prepared)
	if err == nil {
		err = c.expect(ctx, proceed)
	}
	if ctx.Err() == nil && (errors.Is(err, io.EOF) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET)) {
		return nil
	}
	return err
}

// Serving tells the predecessor, if there is one, that this process serves. The predecessor then ends.
func (s *Sockets) Serving() {
	if s.predecessor == nil {
		return
	}
	_ = s.predecessor.channel.send(serving) // it may be dead
	_ = s.predecessor.channel.conn.Close()
}

// Lock returns the locked file of the data folder that the process was given; nil if there is none. The caller has to close
// it.
func (s *Sockets) Lock() *os.File {
	lock := s.lock
	s.lock = nil
	return lock
}

// A Successor is a process that is to serve in place of this one.
type Successor struct {
	channel channel
	process *os.Process
	fds     []int // duplicates of the sockets, and the lock
	died    <-chan struct{}
	state   *os.ProcessState // once died is closed
}

// Start starts this program again, with the same arguments, environment and standard streams, and gives it the sockets of
// the listeners that are open, and the lock of the data folder. The program is looked up by the name by which this
// process was started: an upgrade has replaced the file.
func (s *Sockets) Start(lock *os.File) (_ *Successor, err error) {
	path, err := exec.LookPath(os.Args[0])
	if err != nil {
		return nil, fmt.Errorf("find the program: %w", err)
	}
	next := new(Successor)
	defer func() {
		if err != nil {
			closeAll(next.fds)
		}
	}()
	if next.fds, err = s.duplicate(); err != nil {
		return nil, fmt.Errorf("duplicate the sockets: %w", err)
	}
	sockets := len(next.fds)
	raw, err := lock.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("duplicate the lock: %w", err)
	}
	fd, err := duplicate(raw)
	if err != nil {
		return nil, fmt.Errorf("duplicate the lock: %w", err)
	}
	next.fds = append(next.fds, fd)
	return next, next.start(path, sockets)
}

func (n *Successor) start(path string, sockets int) error {
	pair, err := socketPair()
	if err != nil {
		return fmt.Errorf("make the channel: %w", err)
	}
	defer func() { _ = unix.Close(pair[1]) }()
	if n.channel, err = newChannel(pair[0]); err != nil {
		return fmt.Errorf("make the channel: %w", err)
	}
	files := []uintptr{0, 1, 2}
	for _, fd := range n.fds[:sockets] {
		files = append(files, uintptr(fd))
	}
	files = append(files, uintptr(pair[1]), uintptr(n.fds[sockets]))
	env := append(os.Environ(), fmt.Sprintf("LISTEN_FDS=%d", sockets), fmt.Sprintf("%s=%d,%d", variable, firstFD+sockets, firstFD+sockets+1))
	// os.StartProcess would make the sockets blocking, also for this process.
	pid, err := syscall.ForkExec(path, os.Args, &syscall.ProcAttr{Env: env, Files: files})
	if err == nil {
		n.process, err = os.FindProcess(pid)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("start %s: %w", path, err), n.channel.conn.Close())
	}
	died := make(chan struct{})
	n.died = died
	go func() {
		defer close(died)
		n.state, _ = n.process.Wait() // of our child
	}()
	return nil
}

// socketPair returns two connected sockets that processes do not inherit unless they are given them.
func socketPair() (pair [2]int, err error) {
	syscall.ForkLock.RLock() // no process starts before they are close-on-exec
	defer syscall.ForkLock.RUnlock()
	if pair, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0); err != nil {
		return pair, err
	}
	unix.CloseOnExec(pair[0])
	unix.CloseOnExec(pair[1])
	return pair, nil
}

// PID returns the id of the process.
func (n *Successor) PID() int { return n.process.Pid }

// Prepared waits until the successor has checked its configuration. After an error the successor is gone.
func (n *Successor) Prepared(ctx context.Context) error {
	if err := n.expect(ctx, prepared); err != nil {
		closeAll(n.fds)
		return err
	}
	return nil
}

// Stop ends a successor that is prepared, and is not to proceed.
func (n *Successor) Stop() {
	n.end()
	closeAll(n.fds)
}

// Proceed has the successor open the store, which this process has closed, and waits until it serves. After an error the successor
// is gone, and [Successor.Sockets] has the sockets.
func (n *Successor) Proceed(ctx context.Context) error {
	_ = n.channel.send(proceed) // it may be dead, as expect finds
	if err := n.expect(ctx, serving); err != nil {
		return err
	}
	n.close()
	return nil
}

// expect waits for a message of the successor. If none comes, it ends the successor.
func (n *Successor) expect(ctx context.Context, message string) error {
	err := n.channel.expect(ctx, message)
	if err == nil {
		return nil
	}
	n.end()
	if ctx.Err() == nil {
		return fmt.Errorf("the new process has ended (%s); its messages say why", n.state)
	}
	return fmt.Errorf("the new process is not %s: %w", message, err)
}

// end ends the process.
func (n *Successor) end() {
	_ = n.process.Kill() // it may have ended
	<-n.died
	_ = n.channel.conn.Close()
}

// close closes what the process has kept for the successor.
func (n *Successor) close() {
	closeAll(n.fds)
	_ = n.channel.conn.Close()
}

// Sockets returns the sockets of a successor that is gone, and the lock, for this process.
func (n *Successor) Sockets() (*Sockets, error) {
	s := new(Sockets)
	last := len(n.fds) - 1
	for _, fd := range n.fds[:last] {
		one := &socket{file: os.NewFile(uintptr(fd), "socket")}
		if err := one.inspect(); err != nil {
			return nil, fmt.Errorf("take a socket back: %w", err)
		}
		s.given = append(s.given, one)
	}
	s.lock = os.NewFile(uintptr(n.fds[last]), "isr.lock")
	return s, nil
}
