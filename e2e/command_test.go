package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/e2e/internal/process"
)

// settings are the arguments and environment of the binary.
type settings struct {
	dir   string   // the working directory; the data folder is "data" in it
	store []string // flags that say where pages are kept, beside --data
	args  []string // further flags of serve
	env   []string // added to the environment
	race  bool     // the binary has the race detector
}

// embedded returns the settings of a server with the embedded store in a folder of the test.
func embedded(t *testing.T, args ...string) settings {
	t.Helper()
	return settings{dir: t.TempDir(), args: args}
}

// raced returns the same settings for the binary with the race detector.
func (s settings) raced() settings {
	s.race = true
	return s
}

// command returns a subcommand with the flags of the store and the given ones. The test's own
// environment does not configure it.
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
		// On a busy machine the store is slow but not down: pages must not be rendered
		// without it.
		"ISR_STORE_TIMEOUT=10s",
	}, s.env...)
	return cmd
}

// writeFile writes a file into the folder of the commands.
func (s settings) writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// serveFile starts a server with the configuration file isr.yaml, and returns its URL. It is killed at the end of the test.
func (s settings) serveFile(t *testing.T) (p *process.Process, url string) {
	t.Helper()
	cmd := s.command(context.Background(), t, "serve", "--config", "isr.yaml")
	p, url = process.Serve(t, cmd, regexp.MustCompile(`msg="serving (http://[^"]+)"`))
	t.Cleanup(p.Kill)
	return p, url
}

// A listed page is the JSON of isr ls and isr get.
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

// ls returns all partitions that isr ls lists, including those without a page (only a lease).
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

// stored returns the pages with a body that isr ls lists, by key.
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

// get returns what isr get shows of a stored page.
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
