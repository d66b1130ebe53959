package process

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A Usage is what a process and its descendants take.
type Usage struct {
	CPU       time.Duration // including children that have ended
	Resident  int64         // bytes; memory that several of them share counts once
	Anonymous int64         // the part of Resident that is not backed by a file
}

// tick is the unit of times in /proc. It is 100 per second on every Linux.
const tick = time.Second / 100

// UsageOf returns what a process and its descendants take now, from /proc.
func UsageOf(id int) (Usage, error) {
	children, cpu, err := processes()
	if err != nil {
		return Usage{}, err
	}
	var u Usage
	for tree := []int{id}; len(tree) > 0; tree = tree[1:] {
		u.CPU += cpu[tree[0]]
		if err := u.addMemory(tree[0]); err != nil {
			return Usage{}, err
		}
		tree = append(tree, children[tree[0]]...)
	}
	return u, nil
}

// processes returns the children of every process, and the time each had on a CPU.
func processes() (children map[int][]int, cpu map[int]time.Duration, err error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, nil, err
	}
	children, cpu = make(map[int][]int), make(map[int]time.Duration)
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		id, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return nil, nil, err
		}
		parent, used, err := parseStat(string(stat))
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", file, err)
		}
		children[parent] = append(children[parent], id)
		cpu[id] = used
	}
	return children, cpu, nil
}

// parseStat reads the parent of a process, and the time that it and its ended children had on a CPU,
// from the text of /proc/ID/stat.
func parseStat(stat string) (parent int, cpu time.Duration, err error) {
	end := strings.LastIndexByte(stat, ')') // of the name, which may have spaces
	fields := strings.Fields(stat[end+1:])
	if end < 0 || len(fields) < 15 {
		return 0, 0, errors.New("not the format of /proc/ID/stat")
	}
	if parent, err = strconv.Atoi(fields[1]); err != nil {
		return 0, 0, err
	}
	for _, f := range fields[11:15] { // utime, stime, cutime, cstime
		ticks, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, 0, err
		}
		cpu += time.Duration(ticks) * tick
	}
	return parent, cpu, nil
}

func (u *Usage) addMemory(id int) error {
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it has ended
	}
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		name, rest, _ := strings.Cut(lines.Text(), ":")
		value, _ := strings.CutSuffix(strings.TrimSpace(rest), " kB")
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case err != nil: // the line that names the mapping
		case name == "Pss":
			u.Resident += n << 10
		case name == "Pss_Anon":
			u.Anonymous += n << 10
		}
	}
	if err := lines.Err(); !errors.Is(err, syscall.ESRCH) { // ESRCH: it has ended since the look
		return err
	}
	return nil
}

// MachineCPU returns for how long the CPUs of this machine have been busy with processes, added up, and for
// how long its host gave them to other machines. Interrupts do not count: most are interrupts of the network, and
// the ones of a benchmark cannot be told from others.
func MachineCPU() (time.Duration, error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	return parseMachine(string(stat))
}

func parseMachine(stat string) (time.Duration, error) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, errors.New("/proc/stat: not the expected format")
	}
	var busy time.Duration
	for _, at := range []int{1, 2, 3, 8} { // user, nice, system, steal
		ticks, err := strconv.ParseInt(fields[at], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: %w", err)
		}
		busy += time.Duration(ticks) * tick
	}
	return busy, nil
}
