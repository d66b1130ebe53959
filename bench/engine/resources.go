package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// CPU time and memory are read from /proc. On systems other than Linux they are 0.

// tick is the unit of CPU times in /proc: 100 per second on all architectures of Linux.
const tick = 10 * time.Millisecond

// processor returns the CPU time of the server since its start.
func (s server) processor() (time.Duration, error) {
	stat, err := s.proc("stat")
	if err != nil || stat == "" {
		return 0, err
	}
	// The second field, the name in parentheses, may contain spaces and parentheses.
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	user, err := strconv.Atoi(fields[14-3])
	if err != nil {
		return 0, err
	}
	system, err := strconv.Atoi(fields[15-3])
	return time.Duration(user+system) * tick, err
}

// printMemory prints the resident memory of the process.
func (s server) printMemory(when string) error {
	status, err := s.proc("status")
	if err != nil {
		return err
	}
	fmt.Printf("  %-16s %5d MB anonymous, %5d MB file\n", when+":", megabytes(status, "RssAnon:"), megabytes(status, "RssFile:"))
	return nil
}

// megabytes returns the value of a line of /proc/PID/status, which is in KB; 0 if it has no
// that line.
func megabytes(status, name string) int {
	_, rest, _ := strings.Cut(status, name)
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kilobytes, _ := strconv.Atoi(fields[0])
	return kilobytes >> 10
}

// proc returns a file of /proc/PID; "" without a process or without /proc.
func (s server) proc(name string) (string, error) {
	if _, err := os.Stat("/proc/self"); s.pid == 0 || err != nil {
		return "", nil
	}
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(s.pid), name))
	return string(text), err
}
