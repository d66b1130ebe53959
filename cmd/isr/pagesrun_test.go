package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/facetheory/isr/internal/testbed"
)

// TestPagesRun types the commands of the pages, those of blocks of the language console, in a fresh folder, and compares
// what they print with what the page shows: words must be the same; times, sizes, numbers and ids may differ, … stands for
// a part of a line, and a line of … for any lines. A page can have such a block in an HTML comment, for what readers have
// done before.
func TestPagesRun(t *testing.T) {
	found := 0
	for page, text := range documentation(t) {
		sessions := blocks(text, "console")
		if len(sessions) == 0 {
			continue
		}
		found++
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			steps := stepsOf(strings.Join(sessions, "\n"))
			printed := typed(t, steps)
			for i, step := range steps {
				if got, want := general(printed[i]), general(step.output); !step.serves() && !shows(want, got) {
					t.Errorf("$ %s\nprints\n%s\nand not as on the page\n%s", step.command, strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			}
		})
	}
	if found < 5 {
		t.Errorf("found %d pages", found)
	}
}

// A step is a command and its output on the page.
type step struct{ command, output string }

// serves reports whether the command is a server, which goes on while the next ones run.
func (s step) serves() bool { return regexp.MustCompile(`\bisr serve\b`).MatchString(s.command) }

func stepsOf(session string) (steps []step) {
	for line := range strings.Lines(strings.ReplaceAll(session, "\\\n", "")) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			steps = append(steps, step{command: strings.TrimSpace(command)})
		} else if len(steps) > 0 {
			steps[len(steps)-1].output += line
		}
	}
	return steps
}

// typed executes steps in one shell, in a fresh folder, and returns what each printed. Addresses are free ones, and the
// site is the test's.
func typed(t *testing.T, steps []step) []string {
	t.Helper()
	site := httptest.NewServer(bakery())
	t.Cleanup(site.Close)
	addresses := make([]string, 3)
	for i := range addresses {
		var err error
		if addresses[i], err = testbed.FreeAddress(); err != nil {
			t.Fatal(err)
		}
	}
	here := strings.NewReplacer("127.0.0.1:8080", addresses[0], "127.0.0.1:9180", addresses[1], "127.0.0.1:9182", addresses[2],
		"--demo", "--origin "+site.URL, "http://127.0.0.1:3000", site.URL)
	dir := t.TempDir()
	script := `stop() { [ -z "$server" ] || { kill -INT "$server"; wait "$server"; server=; }; }` + "\ncurl() { command curl --silent \"$@\"; }\nserver=\ntrap stop EXIT\n"
	for i, step := range steps {
		command := here.Replace(step.command)
		if step.serves() {
			if strings.Contains(command, "--config") { // the file has the addresses
				command = "env -u ISR_LISTEN -u ISR_ADMIN " + command
			}
			command = fmt.Sprintf("stop; %s >%d 2>&1 & server=$!\nuntil grep -q 'msg=\"serving ' %[2]d; do kill -0 $server || { cat %[2]d >&2; exit 1; }; sleep 0.05; done",
				strings.ReplaceAll(command, "…", ""), i)
		} else {
			command = fmt.Sprintf("{ %s\n} >%d 2>&1", command, i)
		}
		script += command + "\n"
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "ISR_LISTEN="+addresses[0], "ISR_ADMIN="+addresses[1], "ISR_STORE_TIMEOUT=30s")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Logf("the last command failed: %v\n%s", err, out)
	}
	printed := make([]string, len(steps))
	for i := range steps {
		text, err := os.ReadFile(filepath.Join(dir, strconv.Itoa(i)))
		if err != nil {
			t.Fatalf("$ %s\nwas not reached: %v", steps[i].command, err)
		}
		printed[i] = strings.ReplaceAll(string(text), dir, "/srv")
	}
	return printed
}

// bakery is a site whose pages change with every render, and are fresh for an hour.
func bakery() http.Handler {
	var renders atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "max-age=3600")
		w.Header().Set("Cache-Tag", "all-pages, product-7")
		if r.URL.Path == "/account" {
			w.Header().Set("Cache-Control", "private")
			http.SetCookie(w, &http.Cookie{Name: "session", Value: "x"})
		}
		amount := "1"
		if renders.Add(1)%2 == 1 {
			amount = "sold out"
		}
		fmt.Fprintf(w, "<!doctype html>\n<title>Bakery</title>\n<table>\n        <tr><td>Raisin bun</td><td class=\"num\">%s</td></tr>\n</table>\n", amount)
	})
}

// general returns the lines of an output without what differs from run to run.
func general(output string) (lines []string) {
	host, _ := os.Hostname()
	for _, r := range []struct{ pattern, to string }{
		{regexp.QuoteMeta(host) + `:\d+`, "NODE"},
		{`web-1:\d+`, "NODE"},
		{`[0-9]{8}T[0-9]{6}(\.[0-9]+)?Z-[a-z2-7…]+`, "GENERATION"},
		{`[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:]{8}Z?`, "TIME"},
		{`; ttl=-?[0-9]+`, ""}, // missing if a page is sent while it is rendered
		{`CACHE#[0-9a-f]+`, "CACHE#HEX"},
		{`[0-9a-f]{8,}…?`, "HEX"},
		{`[0-9.]+ ([KMG]i)?B\b`, "SIZE"},
		{`([0-9.]+(d|h|m|s|ms|µs))+\b`, "DURATION"},
		{`\bv?[0-9]+([.,][0-9]+)*`, "N"},
		{`[ \t]+`, " "},
	} {
		output = regexp.MustCompile(r.pattern).ReplaceAllString(output, r.to)
	}
	for line := range strings.Lines(output) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// shows reports whether lines are those that a page shows.
func shows(page, lines []string) bool {
	pattern := "^"
	for _, line := range page {
		if line == "…" {
			pattern += `(.*\n)*`
		} else {
			pattern += strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*") + `\n`
		}
	}
	text := ""
	for _, line := range lines {
		text += line + "\n"
	}
	return regexp.MustCompile(pattern + "$").MatchString(text)
}
