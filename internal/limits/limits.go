// Package limits reads what the operating system allows a process: open files and memory.
package limits

import (
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
)

// Limits of this process. Zero means that a limit is not known.
type Limits struct {
	Files     int64 // open files at most (RLIMIT_NOFILE, which Go has raised to its hard limit)
	OpenFiles int64 // now
	Memory    int64 // bytes: the least limit of its control groups, else the memory of the machine
}

// Of returns the limits of this process.
func Of() Limits {
	l := Limits{Memory: memory(os.ReadFile)}
	var files syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) == nil {
		l.Files = int64(min(files.Cur, 1<<62)) //nolint:gosec // bounded
	}
	if dir, err := os.Open("/proc/self/fd"); err == nil {
		if names, err := dir.Readdirnames(-1); err == nil {
			l.OpenFiles = int64(len(names)) - 1 // without dir
		}
		_ = dir.Close()
	}
	return l
}

// memory returns the least limit in the files of control groups (cgroups(7), versions 1 and
// 2), and of the machine (proc(5)).
func memory(read func(string) ([]byte, error)) int64 {
	least := int64(0)
	consider := func(n int64) {
		if n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	if text, err := read("/proc/meminfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" {
				if kb, err := strconv.ParseInt(f[1], 10, 43); err == nil {
					consider(kb << 10)
				}
			}
		}
	}
	groups, _ := read("/proc/self/cgroup")
	for line := range strings.Lines(string(groups)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		root, name := "/sys/fs/cgroup", "memory.max"
		if f[0] != "0" {
			if f[1] != "memory" {
				continue
			}
			root, name = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		// In a container the path may be the path of the host, so its parents are read too.
		for at := path.Clean("/" + f[2]); ; at = path.Dir(at) {
			if text, err := read(path.Join(root, at, name)); err == nil {
				if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
					consider(n)
				}
			}
			if at == "/" {
				break
			}
		}
	}
	return least
}
