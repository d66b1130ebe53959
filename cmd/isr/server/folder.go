package server

import (
	"errors"
	"fmt"
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
func Claim(path string) (*Folder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("create data folder: %w; give another with --data", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, "isr.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("write to data folder: %w; give another with --data", err)
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
