package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A badStart is a call of isr serve that must fail, and its one line of output.
type badStart struct {
	name string
	call func(t *testing.T) *exec.Cmd
	says []string
}

// Invalid input ends the start with one line that says what to do.
func TestBadStart(t *testing.T) {
	t.Parallel()
	for _, b := range append(badFolders(), badAddresses()...) {
		t.Run(b.name, b.run)
	}
}

// The same for an invalid table, bucket or credentials.
func TestBadStartCloud(t *testing.T) {
	t.Parallel()
	for _, b := range badClouds() {
		t.Run(b.name, b.run)
	}
}

func (b badStart) run(t *testing.T) {
	t.Parallel()
	cmd := b.call(t)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	began := time.Now()
	err := cmd.Run()
	took := time.Since(began)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() <= 0 {
		t.Errorf("ended with %v, expected an exit code", err)
	}
	text := stderr.String()
	if strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n") {
		t.Errorf("it wrote %d lines, expected one:\n%s", strings.Count(text, "\n"), text)
	}
	for _, says := range b.says {
		if !strings.Contains(text, says) {
			t.Errorf("it wrote %q, expected that to say %q", text, says)
		}
	}
	t.Logf("after %s, code %d: %s", took.Round(10*time.Millisecond), cmd.ProcessState.ExitCode(), text)
}

// start runs a server that must fail to start; it is killed if it starts.
func (s settings) start(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	line := append([]string{"--origin", "http://127.0.0.1:1", "--listen", "127.0.0.1:0"}, s.args...)
	return s.command(ctx, t, "serve", append(line, args...)...)
}

func badFolders() []badStart {
	return []badStart{
		{"a folder in use", func(t *testing.T) *exec.Cmd {
			g := serve(t, embedded(t), newOrigin(t))
			return g.start(t)
		}, []string{"used by another isr process (pid ", "--data"}},
		{"a file for a folder", func(t *testing.T) *exec.Cmd {
			s := embedded(t)
			writeFile(t, filepath.Join(s.dir, "data"))
			return s.start(t)
		}, []string{"data", "not a directory", "--data"}},
		{"a folder below a file", func(t *testing.T) *exec.Cmd {
			s := embedded(t)
			writeFile(t, filepath.Join(s.dir, "file"))
			return s.start(t, "--data", "file/data")
		}, []string{"file", "not a directory", "--data"}},
		{"a folder that cannot be written", func(t *testing.T) *exec.Cmd {
			s := embedded(t)
			if err := os.Mkdir(filepath.Join(s.dir, "data"), 0o555); err != nil {
				t.Fatal(err)
			}
			return asNobody(t, s.start(t))
		}, []string{"permission denied", "--data"}},
		{"a folder that cannot be made", func(t *testing.T) *exec.Cmd {
			s := embedded(t)
			if err := os.Chmod(s.dir, 0o555); err != nil {
				t.Fatal(err)
			}
			return asNobody(t, s.start(t))
		}, []string{"permission denied", "--data"}},
		{"a table.db that is none", func(t *testing.T) *exec.Cmd {
			s := embedded(t)
			if err := os.Mkdir(filepath.Join(s.dir, "data"), 0o755); err != nil {
				t.Fatal(err)
			}
			writeFile(t, filepath.Join(s.dir, "data", "table.db"))
			return s.start(t)
		}, []string{"table.db"}},
	}
}

func writeFile(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(strings.Repeat("not what you expect\n", 1000)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// asNobody runs a command as the user nobody, to whom permissions apply, unlike root.
func asNobody(t *testing.T, cmd *exec.Cmd) *exec.Cmd {
	t.Helper()
	if os.Geteuid() != 0 {
		return cmd
	}
	if err := os.Chmod(filepath.Dir(cmd.Dir), 0o755); err != nil {
		t.Fatal(err)
	}
	const nobody = 65534
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return cmd
}

func badAddresses() []badStart {
	withOrigin := func(origin string) func(t *testing.T) *exec.Cmd {
		return func(t *testing.T) *exec.Cmd { return embedded(t).start(t, "--origin", origin) }
	}
	return []badStart{
		{"an address in use", func(t *testing.T) *exec.Cmd {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
			return embedded(t).start(t, "--listen", l.Addr().String())
		}, []string{"cannot listen on 127.0.0.1:", "address already in use", "--listen"}},
		{"an origin without scheme", withOrigin("127.0.0.1:3000"), []string{"--origin", "expected one such as http://127.0.0.1:3000"}},
		{"an origin of another scheme", withOrigin("ftp://127.0.0.1"), []string{"--origin", "expected one such as http://127.0.0.1:3000"}},
		{"an origin with a path", withOrigin("http://127.0.0.1/shop"), []string{"--origin", "path"}},
		{"an origin with a bad port", withOrigin("http://127.0.0.1:x"), []string{"--origin", "expected one such as http://127.0.0.1:3000"}},
	}
}

func badClouds() []badStart {
	// with runs isr serve on a cloud with changed settings.
	with := func(change func(t *testing.T, s *settings, c *cloud)) func(t *testing.T) *exec.Cmd {
		return func(t *testing.T) *exec.Cmd {
			c := newCloud(t)
			s := c.settings(t)
			change(t, &s, c)
			return s.start(t)
		}
	}
	flag := func(name string, value func(t *testing.T) string) func(t *testing.T) *exec.Cmd {
		return with(func(t *testing.T, s *settings, _ *cloud) { s.args = append(s.args, name, value(t)) })
	}
	// Without --require-store it would start and serve without the stores.
	refusing := func(name string, value func(t *testing.T) string) func(t *testing.T) *exec.Cmd {
		return with(func(t *testing.T, s *settings, _ *cloud) { s.args = append(s.args, "--require-store", name, value(t)) })
	}
	return []badStart{
		{"no such table", with(func(_ *testing.T, s *settings, _ *cloud) { s.args = nil }), []string{"isr-e2e-", "isr table create", "--create-table"}},
		{"a table that is another's", with(foreignTable), []string{"its keys must be pk (string, hash), sk (string, range)", "use another table name"}},
		{"no such bucket", flag("--bucket", func(*testing.T) string { return "isr-e2e-no-such-bucket" }), []string{"isr-e2e-no-such-bucket", "the bucket does not exist; create it"}},
		{"no credentials", with(func(_ *testing.T, s *settings, _ *cloud) { s.env = nil }), []string{"no AWS credentials", "AWS_ACCESS_KEY_ID"}},
		{"wrong credentials", with(func(_ *testing.T, s *settings, _ *cloud) {
			s.env = []string{"AWS_ACCESS_KEY_ID=nobody", "AWS_SECRET_ACCESS_KEY=nothing"}
		}), []string{"AWS refused the credentials"}},
		{"no region", with(func(_ *testing.T, s *settings, c *cloud) {
			s.store = []string{"--table", c.table, "--bucket", c.bucket, "--dynamodb-endpoint", c.dynamodb, "--s3-endpoint", c.s3}
		}), []string{"--region", "AWS_REGION"}},
		{"DynamoDB does not answer", refusing("--dynamodb-endpoint", closedAddress), []string{"--dynamodb-endpoint", "connection refused"}},
		{"DynamoDB hangs", refusing("--dynamodb-endpoint", hangingAddress), []string{"--dynamodb-endpoint"}},
		{"S3 does not answer", refusing("--s3-endpoint", closedAddress), []string{"--s3-endpoint", "connection refused"}},
		{"S3 hangs", refusing("--s3-endpoint", hangingAddress), []string{"--s3-endpoint"}},
	}
}

// closedAddress returns an address on which no process listens.
func closedAddress(t *testing.T) string {
	t.Helper()
	return "http://" + freeAddress(t)
}

// hangingAddress returns an address that accepts connections and never answers.
func hangingAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return fmt.Sprintf("http://%s", l.Addr())
}
