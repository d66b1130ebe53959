package compare

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/facetheory/isr/bench/internal/process"
)

// A Machine is what a report was made on.
type Machine struct {
	CPU    string `json:"cpu"`
	CPUs   int    `json:"cpus"`
	Memory int64  `json:"memory_mib"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
}

func thisMachine() (Machine, error) {
	m := Machine{CPUs: runtime.NumCPU(), Go: runtime.Version()}
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return Machine{}, err
	}
	m.Kernel = strings.TrimSpace(string(kernel))
	if m.CPU, err = value("/proc/cpuinfo", `(?m)^model name\s*: (.*)$`); err != nil {
		return Machine{}, err
	}
	memory, err := value("/proc/meminfo", `(?m)^MemTotal:\s+(\d+) kB$`)
	if err != nil {
		return Machine{}, err
	}
	kib, err := strconv.ParseInt(memory, 10, 64)
	m.Memory = kib >> 10
	return m, err
}

// value returns what a pattern selects of a file.
func value(file, pattern string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	match := regexp.MustCompile(pattern).FindSubmatch(text)
	if match == nil {
		return "", fmt.Errorf("%s: no line matches %s", file, pattern)
	}
	return string(match[1]), nil
}

// tolerable is the share of the machine's CPUs that processes outside of the benchmark may take during a
// measurement before it is marked.
const tolerable = 0.05

// An observation is the state of the machine before a measurement.
type observation struct {
	average   float64 // the load average of the last minute, to which the benchmark itself contributes
	at        time.Time
	busy, own time.Duration
}

func observe() (observation, error) {
	text, err := value("/proc/loadavg", `^([\d.]+) `)
	if err != nil {
		return observation{}, err
	}
	average, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return observation{}, err
	}
	busy, own, err := used()
	return observation{average, time.Now(), busy, own}, err
}

// used returns the CPU time of the machine, and the CPU time of this process and its descendants.
func used() (busy, own time.Duration, err error) {
	if busy, err = process.MachineCPU(); err != nil {
		return 0, 0, err
	}
	u, err := process.UsageOf(os.Getpid())
	return busy, u.CPU, err
}

// foreign returns how many CPUs other processes, or other machines of the same host, have used since.
func (o observation) foreign() (float64, error) {
	busy, own, err := used()
	if err != nil {
		return 0, err
	}
	return max(0, (busy-o.busy-(own-o.own)).Seconds()/time.Since(o.at).Seconds()), nil
}
