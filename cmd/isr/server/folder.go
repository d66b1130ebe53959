package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// A Folder is a data folder that this process owns: it holds the lock on isr.lock in it.
// The kernel releases the lock when the process ends.
type Folder struct {
	path string
	lock *os.File
}

// Claim creates the data folder if it does not exist, and locks it.
func Claim(path string) (*Folder, error) { return claim(path, nil) }

// claim is [Claim]. held is the locked file of a data folder that the process has from its predecessor, which is kept if the folder is
// the same, and closed if not; nil if there is none.
func claim(path string, held *os.File) (*Folder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("create data folder: %w; give another with --data", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, "isr.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("write to data folder: %w; give another with --data", err)
	}
	if held != nil {
		spare := held
		if sameFile(lock, held) {
			lock, spare = held, lock
		}
		if err := spare.Close(); err != nil {
			return nil, fmt.Errorf("data folder: %w", err)
		}
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, readErr := os.ReadFile(lock.Name())
		err = errors.Join(fmt.Errorf("data folder %s is used by another isr process (pid %s); stop it, or give another folder with --data",
			path, strings.TrimSpace(string(holder))), readErr, lock.Close())
		return nil, err
	}
	f := &Folder{path: path, lock: lock}
	if err := f.sign(); err != nil {
		return nil, errors.Join(fmt.Errorf("write to data folder: %w", err), lock.Close())
	}
	return f, nil
}

func sameFile(a, b *os.File) bool {
	one, errOne := a.Stat()
	other, errOther := b.Stat()
	return errOne == nil && errOther == nil && os.SameFile(one, other)
}

// sign writes the process id for the error message of a second process.
func (f *Folder) sign() error {
	if err := f.lock.Truncate(0); err != nil {
		return err
	}
	_, err := f.lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// Release gives the folder to other processes. Closing the file releases the lock.
func (f *Folder) Release() { _ = f.lock.Close() }

// socketName is the name of the socket in the data folder by which commands reach the admin
// API of a running server. It needs no token, since only the folder's owner can connect.
const socketName = "isr.sock"

const socketMode = 0o600

// ListenSocket serves commands on the socket of a claimed folder.
func ListenSocket(f *Folder, h http.Handler, log *slog.Logger) (*Running, error) {
	path, err := socketPath(f.path)
	if err != nil {
		return nil, err
	}
	// Remove the socket of a crashed server. None listens on it, since we hold the folder.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("the socket for commands: %w", err)
	}
	// The mode of the file descriptor becomes the mode of the socket, on Linux, so that other users
	// cannot connect before the chmod. A umask would change files that are made at the same
	// time, such as the folder of certificates.
	private := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), socketMode) })
	}}
	listener, err := private.Listen(context.Background(), "unix", path)
	if err == nil {
		err = os.Chmod(path, socketMode)
	}
	if err != nil {
		return nil, fmt.Errorf("the socket for commands: %w", err)
	}
	return start(newServer(h, log), listener), nil
}

// socketPath returns a path of the socket that fits the kernel's limit, about 100 bytes on
// every system: relative to the working directory if the absolute path is too long.
func socketPath(dir string) (string, error) {
	const longest = 100
	path := filepath.Join(dir, socketName)
	if len(path) <= longest {
		return path, nil
	}
	wd, err := os.Getwd()
	if err == nil {
		if rel, err := filepath.Rel(wd, path); err == nil && len(rel) <= longest {
			return rel, nil
		}
	}
	return "", fmt.Errorf("path of data folder %s is too long for a socket; give a shorter one with --data", dir)
}

// DialSocket returns a transport to the server of a folder, nil if no server listens there.
func DialSocket(ctx context.Context, dir string) http.RoundTripper {
	path, err := socketPath(dir)
	if err != nil {
		return nil
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil
	}
	_ = conn.Close() // only a probe
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", path) },
	}
}
