package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// A folder is a data folder that this process alone serves from, for as long as
// it holds the lock on isr.lock in it. The kernel drops the lock with the process.
type folder struct {
	path string
	lock *os.File
}

// claim makes the data folder, if need be, and locks it.
func claim(path string) (*folder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("the data folder cannot be made: %w; give another with --data", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, "isr.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the data folder cannot be written: %w; give another with --data", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, readErr := os.ReadFile(lock.Name())
		err = errors.Join(fmt.Errorf("the data folder %s is used by another isr (process %s); stop that one, or give another folder with --data",
			path, strings.TrimSpace(string(holder))), readErr, lock.Close())
		return nil, err
	}
	f := &folder{path: path, lock: lock}
	if err := f.sign(); err != nil {
		return nil, errors.Join(fmt.Errorf("the data folder cannot be written: %w", err), lock.Close())
	}
	return f, nil
}

// sign leaves the process's number for the error message of the next.
func (f *folder) sign() error {
	if err := f.lock.Truncate(0); err != nil {
		return err
	}
	_, err := f.lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func (f *folder) release() { _ = f.lock.Close() } // the lock goes with the file
