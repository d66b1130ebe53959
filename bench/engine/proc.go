package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// What a process takes of the machine stands in /proc, which Linux has. Elsewhere
// it is reported as nothing.

// tick is the unit of processor times, on every Linux.
const tick = 10 * time.Millisecond

// processor is how long the server has computed since it was started.
func (s server) processor() (time.Duration, error) {
	stat, err := s.proc("stat")
	if err != nil || stat == "" {
		return 0, err
	}
	// The second field, a name in parentheses, may hold anything.
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	user, err := strconv.Atoi(fields[14-3])
	if err != nil {
		return 0, err
	}
	system, err := strconv.Atoi(fields[15-3])
	return time.Duration(user+system) * tick, err
}

// printMemory prints what is resident of the process now.
func (s server) printMemory(when string) error {
	status, err := s.proc("status")
	if err != nil {
		return err
	}
	fmt.Printf("  %-16s %5d MB anonymous, %5d MB of files\n", when+":", megabytes(status, "RssAnon:"), megabytes(status, "RssFile:"))
	return nil
}

// megabytes is a line of the status, which the kernel gives in KB; 0 if it is
// not there.
func megabytes(status, name string) int {
	_, rest, _ := strings.Cut(status, name)
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kilobytes, _ := strconv.Atoi(fields[0])
	return kilobytes >> 10
}

// proc returns a file of the process; "" if there is no process, or no /proc.
func (s server) proc(name string) (string, error) {
	if _, err := os.Stat("/proc/self"); s.pid == 0 || err != nil {
		return "", nil
	}
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(s.pid), name))
	return string(text), err
}
