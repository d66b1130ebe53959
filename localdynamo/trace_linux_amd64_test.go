package localdynamo_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// bbolt writes to an *os.File, so that no file system of the tests can stand in for it. Instead a child process is
// traced (ptrace(2)): the calls by which it changes files, and makes them durable, are recorded as the kernel gets
// them.

// A tracedCall is a call that succeeded.
type tracedCall struct {
	op     string // open, write, grow, sync, link, rename, remove, print
	name   string // below the folder; of a descriptor, as it was opened
	to     string // link, rename: the new name
	opened int    // number of the open file; zero: none
	at     int64  // write: the offset; grow: the length
	data   []byte // write, print
}

// A tracer follows all threads of a child process.
type tracer struct {
	dir    string
	memory *os.File
	files  map[uint64]tracedCall // the open files by descriptor: their calls open
	opened int
	calls  []tracedCall
}

// traced runs this binary in a role under a tracer, and returns its calls on files in a folder.
func traced(t *testing.T, role, path string, variables ...string) []tracedCall {
	t.Helper()
	runtime.LockOSThread() // the thread that starts a process traces it
	defer runtime.UnlockOSThread()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), roleVariable+"="+role, pathVariable+"="+path), variables...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Setpgid: true}
	err := cmd.Start()
	if errors.Is(err, unix.EPERM) {
		t.Skip("power failures of the engine are not tested: the system does not allow ptrace")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }() // it has ended, unless the test fails
	pid := cmd.Process.Pid
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, unix.WALL, nil); err != nil || !status.Stopped() {
		t.Fatalf("the child process did not stop: %v", err)
	}
	const options = unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_EXITKILL
	if err := unix.PtraceSetOptions(pid, options); err != nil {
		t.Fatal(err)
	}
	memory, err := os.Open(filepath.Join("/proc", itoa(pid), "mem"))
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	tr := &tracer{dir: filepath.Dir(path), memory: memory, files: make(map[uint64]tracedCall)}
	for thread := pid; ; {
		deliver := 0
		switch {
		case status.Exited() || status.Signaled():
			if thread == pid {
				if status.ExitStatus() != 0 {
					t.Fatalf("the child process ended with %v", status)
				}
				return tr.calls
			}
			deliver = -1
		case status.StopSignal() == unix.SIGTRAP|0x80:
			tr.stop(t, thread)
		case status.StopSignal() != unix.SIGTRAP && status.StopSignal() != unix.SIGSTOP:
			deliver = int(status.StopSignal())
		}
		if deliver >= 0 {
			if err := unix.PtraceSyscall(thread, deliver); err != nil && err != unix.ESRCH { //nolint:errorlint // an Errno
				t.Fatal(err)
			}
		}
		if thread, err = waitGroup(pid, &status); err != nil {
			t.Fatal(err)
		}
	}
}

// waitGroup waits for a thread of a process group. Other child processes belong to other tests.
func waitGroup(group int, status *unix.WaitStatus) (thread int, err error) {
	for {
		if thread, err = unix.Wait4(-group, status, unix.WALL, nil); err != unix.EINTR { //nolint:errorlint // an Errno
			return thread, err
		}
	}
}

// stop records the call that a thread returns from.
func (tr *tracer) stop(t *testing.T, thread int) {
	var r unix.PtraceRegs
	if err := unix.PtraceGetRegs(thread, &r); err != nil {
		if err == unix.ESRCH { //nolint:errorlint // an Errno
			return // it is being ended
		}
		t.Fatal(err)
	}
	if int64(r.Rax) < 0 { //nolint:gosec // a negative number is an error, or that the call begins
		return
	}
	switch r.Orig_rax {
	case unix.SYS_OPENAT:
		if name, ok := tr.name(t, r.Rsi); ok {
			tr.opened++
			call := tracedCall{op: "open", name: name, opened: tr.opened}
			tr.files[r.Rax] = call
			tr.calls = append(tr.calls, call)
		}
	case unix.SYS_CLOSE:
		delete(tr.files, r.Rdi)
	case unix.SYS_WRITE:
		if r.Rdi == 1 {
			tr.calls = append(tr.calls, tracedCall{op: "print", data: tr.read(t, r.Rsi, r.Rax)})
		} else if f, ok := tr.files[r.Rdi]; ok {
			t.Fatalf("%s is written to without an offset", f.name)
		}
	case unix.SYS_PWRITE64:
		tr.onFile(r.Rdi, tracedCall{op: "write", at: int64(r.R10), data: tr.read(t, r.Rsi, r.Rax)}) //nolint:gosec // below 2^63
	case unix.SYS_FTRUNCATE:
		tr.onFile(r.Rdi, tracedCall{op: "grow", at: int64(r.Rsi)}) //nolint:gosec // below 2^63
	case unix.SYS_FSYNC, unix.SYS_FDATASYNC:
		tr.onFile(r.Rdi, tracedCall{op: "sync"})
	case unix.SYS_LINKAT:
		tr.onNames(t, "link", r.Rsi, r.R10)
	case unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2:
		tr.onNames(t, "rename", r.Rsi, r.R10)
	case unix.SYS_UNLINKAT:
		if name, ok := tr.name(t, r.Rsi); ok {
			tr.calls = append(tr.calls, tracedCall{op: "remove", name: name})
		}
	}
}

// onFile records a call on a descriptor, if it belongs to a file of the folder.
func (tr *tracer) onFile(fd uint64, call tracedCall) {
	if f, ok := tr.files[fd]; ok {
		call.name, call.opened = f.name, f.opened
		tr.calls = append(tr.calls, call)
	}
}

func (tr *tracer) onNames(t *testing.T, op string, from, to uint64) {
	name, ok := tr.name(t, from)
	if target, alsoOK := tr.name(t, to); ok && alsoOK {
		tr.calls = append(tr.calls, tracedCall{op: op, name: name, to: target})
	}
}

// name returns the name below the folder of a path in the memory of the process; ok is false for other paths.
func (tr *tracer) name(t *testing.T, at uint64) (name string, ok bool) {
	path := make([]byte, 0, unix.PathMax)
	for !bytes.ContainsRune(path, 0) && len(path) < unix.PathMax {
		path = append(path, tr.read(t, at+uint64(len(path)), 1)...)
	}
	text, _, _ := strings.Cut(string(path), "\x00")
	name, err := filepath.Rel(tr.dir, text)
	return name, err == nil && filepath.IsLocal(name)
}

func (tr *tracer) read(t *testing.T, at, length uint64) []byte {
	data := make([]byte, length)
	if _, err := tr.memory.ReadAt(data, int64(at)); err != nil { //nolint:gosec // an address of a process is below 2^63
		t.Fatal(err)
	}
	return data
}
