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
	"syscall"
)

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
