package compare

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// A Report is the result of a run.
type Report struct {
	Bench     string    `json:"bench"`
	Command   string    `json:"command"`
	Date      time.Time `json:"date"`
	Commit    string    `json:"commit"`
	Modified  bool      `json:"modified,omitempty"` // the work tree had changes of the code
	Machine   Machine   `json:"machine"`
	Rounds    int       `json:"rounds"`
	Seconds   int       `json:"seconds"`
	Scenarios []*Result `json:"scenarios"`
}

// A Result is what was measured in a scenario.
type Result struct {
	Name     string    `json:"name"`
	About    string    `json:"about"`
	Baseline string    `json:"baseline"`
	Columns  []Column  `json:"columns"`
	Missing  []string  `json:"missing,omitempty"`
	Servers  []*Server `json:"servers"`
}

// A Server is what was measured of a server in a scenario.
type Server struct {
	Name         string             `json:"name"`
	Version      string             `json:"version,omitempty"`
	Note         string             `json:"note,omitempty"`
	Summary      map[string]Summary `json:"summary"`
	Marked       int                `json:"marked,omitempty"`  // measurements with foreign load
	Foreign      float64            `json:"foreign_cpus"`      // mean of all measurements
	Refused      int                `json:"refused,omitempty"` // measurements that failed
	Measurements []Measurement      `json:"measurements"`
}

// A Measurement is one round of a server.
type Measurement struct {
	Round       int     `json:"round"`
	Values      Sample  `json:"values,omitempty"`
	Refused     string  `json:"refused,omitempty"` // why the values do not count
	LoadAverage float64 `json:"load_average"`      // before it
	ForeignCPUs float64 `json:"foreign_cpus"`      // that other processes used during it
}

// marked reports whether there was foreign load.
func (m Measurement) marked() bool { return m.ForeignCPUs > tolerable*float64(runtime.NumCPU()) }

func newReport(ctx context.Context, bench string, r *Run) (*Report, error) {
	machine, err := thisMachine()
	if err != nil {
		return nil, err
	}
	commit, err := git(ctx, "rev-parse", "--short=12", "HEAD")
	if err != nil {
		return nil, err
	}
	changes, err := git(ctx, "status", "--porcelain", "--untracked-files=no", "--", ":/*.go", ":/*go.mod")
	if err != nil {
		return nil, err
	}
	return &Report{
		Bench: bench, Command: r.command, Date: time.Now().UTC().Truncate(time.Second), Commit: commit, Modified: changes != "",
		Machine: machine, Rounds: r.Rounds, Seconds: r.Seconds,
	}, nil
}

func git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}

// refused returns an error that names the servers of which measurements were refused.
func (r *Report) refused() error {
	var all []error
	for _, s := range r.Scenarios {
		for _, server := range s.Servers {
			if server.Refused > 0 {
				all = append(all, fmt.Errorf("%s: %s: %d of %d rounds were refused", s.Name, server.Name, server.Refused, r.Rounds))
			}
		}
	}
	return errors.Join(all...)
}

func (r *Report) write(file string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// Read reads a report.
func Read(file string) (*Report, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &r, nil
}
