package main

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

// socketName is the name, in the data folder, of the socket by which commands reach
// the admin API of a running server. Nobody but the folder's owner can use it, and
// so it asks for no token.
const socketName = "isr.sock"

// listenSocket serves the commands on the socket of a folder that is ours.
func listenSocket(f *folder, h http.Handler, log *slog.Logger) (*running, error) {
	path, err := socketPath(f.path)
	if err != nil {
		return nil, err
	}
	// A socket that a crashed server left behind: nobody listens on it, since we
	// hold the folder.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("the socket for commands: %w", err)
	}
	// Nobody else may reach the socket, not even for the moment before a chmod.
	mask := syscall.Umask(0o177)
	listener, err := net.Listen("unix", path)
	syscall.Umask(mask)
	if err != nil {
		return nil, fmt.Errorf("the socket for commands: %w", err)
	}
	return start(newServer(h, log), listener), nil
}

// socketPath is the socket's path, short enough for the kernel: about 100 bytes
// on every system. A folder deep down is named from the working directory.
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
	return "", fmt.Errorf("the path of the data folder %s is too long for a socket in it; give a shorter one with --data", dir)
}

// dialSocket returns a transport that leads to the server of a folder, nil if none
// listens there.
func dialSocket(ctx context.Context, dir string) http.RoundTripper {
	path, err := socketPath(dir)
	if err != nil {
		return nil
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil
	}
	_ = conn.Close() // it was only to see
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", path) },
	}
}
