package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/e2e/internal/process"
)

// settings are how the binary is called.
type settings struct {
	dir   string   // the working directory; the data folder is "data" in it
	store []string // flags that say where pages are kept, beside --data
	args  []string // further flags of serve
	env   []string // added to the environment
	race  bool     // the binary has the race detector
}

// embedded are the settings of a site that keeps its pages in a folder of the test.
func embedded(t *testing.T, args ...string) settings {
	t.Helper()
	return settings{dir: t.TempDir(), args: args}
}

// raced are the same settings for a binary with the race detector.
func (s settings) raced() settings {
	s.race = true
	return s
}

// command makes the call of a subcommand with the store's flags and the given
// ones. Nothing of the test's own environment configures it.
func (s settings) command(ctx context.Context, t *testing.T, subcommand string, args ...string) *exec.Cmd {
	t.Helper()
	binary := process.Binary
	if s.race {
		binary = process.RaceBinary
	}
	line := append([]string{subcommand, "--data", "data"}, s.store...)
	cmd := exec.CommandContext(ctx, binary(t, ".."), append(line, args...)...)
	cmd.Dir = s.dir
	cmd.Env = append([]string{
		"HOME=" + s.dir, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(),
		"AWS_EC2_METADATA_DISABLED=true",
		"GORACE=atexit_sleep_ms=0",
		// The store of a busy machine is slow, and not down: pages are not to be
		// rendered without it.
		"ISR_STORE_TIMEOUT=10s",
	}, s.env...)
	return cmd
}

// A listed page is what isr ls and isr get say of it.
type listed struct {
	Key           string    `json:"key"`
	State         string    `json:"state"`
	Status        int       `json:"status"`
	Generation    string    `json:"generation_id"`
	Body          string    `json:"body"`
	BodyBytes     int64     `json:"body_bytes"`
	BodyProblem   string    `json:"body_problem"`
	LeaseOwner    string    `json:"lease_owner"`
	LeaseUntil    time.Time `json:"lease_until"`
	LeaseFailures int       `json:"lease_failures"`
	Malformed     string    `json:"malformed"`
}

// ls asks isr ls for all partitions, those without a page (a lease alone) included.
func (s settings) ls(t *testing.T) []listed {
	t.Helper()
	in := json.NewDecoder(bytes.NewReader(s.output(t, "ls", "--json")))
	var pages []listed
	for {
		var p listed
		err := in.Decode(&p)
		if errors.Is(err, io.EOF) {
			return pages
		}
		if err != nil {
			t.Fatalf("isr ls --json: %v", err)
		}
		pages = append(pages, p)
	}
}

// stored are the pages that isr ls shows with a body, by key.
func (s settings) stored(t *testing.T) map[string]listed {
	t.Helper()
	pages := make(map[string]listed)
	for _, p := range s.ls(t) {
		if p.Malformed != "" {
			t.Errorf("isr ls: malformed: %s", p.Malformed)
		}
		if p.Body != "" {
			pages[p.Key] = p
		}
	}
	return pages
}

// get asks isr get for a page that is stored.
func (s settings) get(t *testing.T, key string) listed {
	t.Helper()
	var p listed
	if err := json.Unmarshal(s.output(t, "get", "--json", key), &p); err != nil {
		t.Fatalf("isr get --json %s: %v", key, err)
	}
	return p
}

func (s settings) output(t *testing.T, subcommand string, args ...string) []byte {
	t.Helper()
	cmd := s.command(t.Context(), t, subcommand, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("isr %s %q: %v\n%s", subcommand, args, err, &stderr)
	}
	return out
}
