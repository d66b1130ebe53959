package main

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/facetheory/isr/gateway/admin"
)

// tokenPath is where a data folder keeps the token of its admin API.
func tokenPath(f *folder) string { return filepath.Join(f.path, "admin.token") }

// keptToken returns the token of a folder that is ours, made the first time. fresh
// says that it was.
func keptToken(f *folder) (secret string, fresh bool, err error) {
	secret, err = readToken(tokenPath(f))
	if errors.Is(err, os.ErrNotExist) {
		secret = rand.Text()
		return secret, true, writeToken(tokenPath(f), secret)
	}
	return secret, false, err
}

// readToken refuses a file that others could have read or put there.
func readToken(path string) (string, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return "", fmt.Errorf("the admin token %s is a symbolic link; replace it by a file, or set %s", path, tokenVariable)
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
		return "", fmt.Errorf("the admin token %s is no file; remove it for a new one", path)
	case info.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("the admin token %s has the mode %04o, and others may have read it; remove it for a new one, or make it yours alone: chmod 600 %s",
			path, info.Mode().Perm(), path)
	}
	text, err := io.ReadAll(io.LimitReader(file, 4<<10))
	if err != nil {
		return "", fmt.Errorf("the admin token cannot be read: %w", err)
	}
	secret := string(bytes.TrimSpace(text))
	if _, err := admin.NewToken(secret); err != nil {
		return "", fmt.Errorf("%s cannot be used: %w; remove the file for a new one", path, err)
	}
	return secret, nil
}

// writeToken leaves a whole file or none. If we crash here, what remains is a
// temporary file, and the next start makes another token; the folder's lock keeps
// others from doing so at the same time.
func writeToken(path, secret string) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), "admin.token-*") // for its owner alone
	if err != nil {
		return fmt.Errorf("the admin token cannot be kept: %w", err)
	}
	_, err = file.WriteString(secret + "\n")
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("the admin token cannot be kept: %w", errors.Join(err, os.Remove(file.Name())))
	}
	return nil
}
