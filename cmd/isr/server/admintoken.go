package server

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/facetheory/isr/internal/admin"
)

// tokenPath returns the path of the admin token in a data folder.
func tokenPath(f *Folder) string { return filepath.Join(f.path, "admin.token") }

// keptToken returns the token of a claimed folder, and creates it the first time; fresh
// reports whether it did.
func keptToken(f *Folder) (secret string, fresh bool, err error) {
	secret, err = readToken(tokenPath(f))
	if errors.Is(err, os.ErrNotExist) {
		secret = rand.Text()
		return secret, true, writeToken(tokenPath(f), secret)
	}
	return secret, false, err
}

// readToken reads a token file. It refuses files that other users could have read or
// created.
func readToken(path string) (string, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return "", fmt.Errorf("admin token %s is a symbolic link; replace it with a file, or set %s", path, TokenVariable)
	}
	if err != nil {
		return "", fmt.Errorf("the admin token cannot be read: %w", err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	switch {
	case err != nil:
		return "", fmt.Errorf("the admin token cannot be read: %w", err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("admin token %s is not a regular file; remove it, and isr creates a new one", path)
	case info.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("admin token %s has mode %04o and may have been read by others; remove it, and isr creates a new one, or run chmod 600 %s",
			path, info.Mode().Perm(), path)
	}
	text, err := io.ReadAll(io.LimitReader(file, 4<<10))
	if err != nil {
		return "", fmt.Errorf("the admin token cannot be read: %w", err)
	}
	secret := string(bytes.TrimSpace(text))
	if _, err := admin.NewToken(secret); err != nil {
		return "", fmt.Errorf("%s: %w; remove the file, and isr creates a new one", path, err)
	}
	return secret, nil
}

// writeToken writes the file atomically, by rename. A crash before the rename leaves a
// temporary file, and the next start creates another token. The lock of the folder excludes
// concurrent writers.
func writeToken(path, secret string) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), "admin.token-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write admin token: %w", err)
	}
	_, err = file.WriteString(secret + "\n")
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write admin token: %w", errors.Join(err, os.Remove(file.Name())))
	}
	return nil
}
