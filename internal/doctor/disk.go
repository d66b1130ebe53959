package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// A Folder is the data folder of an embedded store.
type Folder struct {
	Path string
	// Bound is the configured size of the store, in bytes; 0 for the default, which follows
	// the free space.
	Bound int64
	// Answers: a server of this folder has answered on its socket.
	Answers bool
	// Open opens the store, and closes it again. It is called if no server holds the folder.
	Open func(context.Context) error
}

const (
	// leastFree is the free space, in bytes, and leastInodes the number of files, below which
	// pages soon cannot be stored.
	leastFree   = 512 << 20
	leastInodes = 10_000
)

// Disk examines the data folder of an embedded store.
func Disk(f Folder) Check {
	return Check{Name: "disk", Run: func(ctx context.Context) []Finding {
		info, err := os.Stat(f.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return []Finding{{Severity: Warning, What: "the data folder " + f.Path + " does not exist", Do: "start a server, which creates it, or give its folder: isr doctor --data DIR"}}
		case err != nil:
			return []Finding{{Severity: Fault, What: "the data folder " + f.Path + " cannot be read", Evidence: []string{err.Error()}, Do: "run isr doctor as the user of the server"}}
		case !info.IsDir():
			return []Finding{{Severity: Fault, What: f.Path + " is not a folder", Do: "give another one in store.data (--data)"}}
		}
		found := append(f.permissions(info), f.writable()...)
		free, space := f.space()
		found = append(found, space...)
		found = append(found, f.lock(ctx)...)
		for _, one := range found {
			if one.Severity != Note {
				return found
			}
		}
		return append([]Finding{{Severity: OK, What: fmt.Sprintf("%s: private, writable, %s free", f.Path, size(free))}}, found...)
	}}
}

func (f Folder) permissions(info fs.FileInfo) []Finding {
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return []Finding{{
			Severity: Warning, What: "other users can reach the data folder " + f.Path + ", which has the token and the socket of the admin API",
			Evidence: []string{"mode " + info.Mode().String()}, Do: "chmod 700 " + f.Path,
		}}
	}
	return nil
}

// writable writes and removes a file of a page's size.
func (f Folder) writable() []Finding {
	file, err := os.CreateTemp(f.Path, ".isr-doctor-*")
	if err == nil {
		_, err = file.Write(make([]byte, 64<<10))
		err = errors.Join(err, file.Sync(), file.Close(), os.Remove(file.Name()))
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return []Finding{{Severity: Fault, What: "the disk of " + f.Path + " is full", Evidence: []string{err.Error()}, Do: "free space, or bound the store: disk: 5GiB in store (--disk 5GiB)"}}
	case errors.Is(err, syscall.EROFS):
		return []Finding{{Severity: Fault, What: f.Path + " is on a file system that is read-only", Evidence: []string{err.Error()}, Do: "mount a writable volume there, or give another folder in store.data (--data)"}}
	}
	return []Finding{{
		Severity: Fault, What: "the data folder " + f.Path + " cannot be written", Evidence: []string{err.Error()},
		Do: fmt.Sprintf("run isr doctor as the user of the server; if it is: chown -R %d %s", os.Geteuid(), f.Path),
	}}
}

// space examines the file system.
func (f Folder) space() (free int64, found []Finding) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(f.Path, &s); err != nil {
		return 0, []Finding{{Severity: Note, What: "the free space of " + f.Path + " is not known", Evidence: []string{err.Error()}}}
	}
	block := uint64(max(s.Bsize, 0)) //nolint:gosec // not negative
	free, total := int64(min(s.Bavail*block, 1<<62)), int64(min(s.Blocks*block, 1<<62))
	seen := fmt.Sprintf("%s of %s free", size(free), size(total))
	switch {
	case free < leastFree:
		found = append(found, Finding{Severity: Fault, What: "the disk of " + f.Path + " is almost full", Evidence: []string{seen}, Do: "free space, or give a folder on another disk in store.data (--data)"})
	case f.Bound > total:
		found = append(found, Finding{
			Severity: Fault, What: fmt.Sprintf("the store may grow to %s, more than its disk has", size(f.Bound)), Evidence: []string{seen},
			Do: "set disk: " + wholeGiB(free/2) + " in store (--disk)",
		})
	}
	if s.Files > 0 && s.Ffree < leastInodes {
		found = append(found, Finding{Severity: Fault, What: "the file system of " + f.Path + " has almost no inodes left", Evidence: []string{fmt.Sprintf("%d of %d free", s.Ffree, s.Files)}, Do: "remove small files, or give a folder on another file system in store.data (--data)"})
	}
	if what := unsuitable(int64(s.Type)); what != "" { //nolint:unconvert // uint32 on some systems
		found = append(found, Finding{Severity: Warning, What: f.Path + " is " + what, Do: "give a folder on a local disk or volume in store.data (--data)"})
	}
	return free, found
}

// unsuitable describes file systems of Linux that do not keep what is stored, or do not lock
// files reliably (statfs(2)); empty for others.
func unsuitable(kind int64) string {
	if runtime.GOOS != "linux" {
		return ""
	}
	switch uint32(kind) { //nolint:gosec // the type has 32 bits
	case 0x01021994, 0x858458f6:
		return "in memory (tmpfs): pages are lost with the machine, and count against its memory"
	case 0x794c7630:
		return "in the layer of a container (overlay): pages are lost with the container"
	case 0x6969, 0xff534d42, 0xfe534d42, 0x517b:
		return "on a network file system (NFS or SMB): locks and writes are not reliable there"
	}
	return ""
}

// lock finds the process that holds the folder.
func (f Folder) lock(ctx context.Context) []Finding {
	if f.Answers {
		return nil
	}
	path := filepath.Join(f.Path, "isr.lock")
	lock, err := os.Open(path)
	if err == nil {
		defer func() { _ = lock.Close() }()
		if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
			pid, _ := os.ReadFile(path)
			return []Finding{{
				Severity: Fault, What: "a process holds the data folder, but does not answer on its socket", Evidence: []string{"pid " + strings.TrimSpace(fmt.Sprintf("%.20s", pid))},
				Do: "look into its log; it may be starting, or hang",
			}}
		}
		_ = syscall.Flock(int(lock.Fd()), syscall.LOCK_UN) // before the store is opened
	}
	if _, err := os.Stat(filepath.Join(f.Path, "table.db")); err != nil || f.Open == nil {
		return []Finding{{Severity: Note, What: "no server runs here, and nothing is stored yet", Do: "start one: isr serve --origin URL"}}
	}
	if err := f.Open(ctx); err != nil {
		return []Finding{{Severity: Fault, What: "the store cannot be opened", Evidence: []string{err.Error()}, Do: "restore the folder from a backup, or remove it: pages are rendered again, but pins and history are lost"}}
	}
	return []Finding{{Severity: Note, What: "no server runs here; the store was opened and is sound"}}
}

// size formats a number of bytes.
func size(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// wholeGiB formats a size for a configuration file.
func wholeGiB(n int64) string {
	if n < 1<<30 {
		return fmt.Sprintf("%dMiB", max(n>>20, 1))
	}
	return fmt.Sprintf("%dGiB", n>>30)
}
