package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// needs skips a test without a command.
func needs(t *testing.T, name, what string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not tested: %s is missing", what, name)
	}
}

// succeed runs a command, which must succeed, and returns its output.
func succeed(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

// made returns the path of the file of a release that a pattern matches.
func made(t *testing.T, r *release, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(r.output, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s matches %q: %v", pattern, found, err)
	}
	return found[0]
}

func folder(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// copyFile copies a file or a symbolic link, with its mode. A file that is deleted, but not
// committed so, is left out.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	info, err := os.Lstat(from)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	err = errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o755))
	if err == nil && info.Mode()&os.ModeSymlink != 0 {
		var target string
		if target, err = os.Readlink(from); err == nil {
			_ = os.Remove(to) // as it was committed
			err = os.Symlink(target, to)
		}
	} else if err == nil {
		var content []byte
		if content, err = os.ReadFile(from); err == nil {
			err = os.WriteFile(to, content, info.Mode())
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func containsAll(got, want []string) bool {
	return !slices.ContainsFunc(want, func(one string) bool { return !slices.Contains(got, one) })
}

// unpack unpacks an archive, compressed or not, into a folder.
func unpack(t *testing.T, dir, path string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if !strings.HasSuffix(path, ".gz") {
		extract(t, dir, file)
		return
	}
	content, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	extract(t, dir, content)
}

// extract writes the files of an archive into a folder, with their modes and, for root, their
// owners.
func extract(t *testing.T, dir string, r io.Reader) {
	t.Helper()
	for archive := tar.NewReader(r); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil {
			err = extractOne(filepath.Join(dir, header.Name), header, archive)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func extractOne(path string, header *tar.Header, content io.Reader) error {
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if header.Typeflag == tar.TypeDir {
		err = errors.Join(err, os.MkdirAll(path, 0o755))
	} else {
		err = errors.Join(err, writeFile(path, func(w io.Writer) error {
			_, err := io.Copy(w, content)
			return err
		}))
	}
	if os.Getuid() == 0 {
		err = errors.Join(err, os.Chown(path, header.Uid, header.Gid))
	}
	return errors.Join(err, os.Chmod(path, header.FileInfo().Mode()))
}

// A server is a running isr serve.
type server struct {
	t    *testing.T
	cmd  *exec.Cmd
	url  string
	log  buffer
	done chan error
}

var serving = regexp.MustCompile(`msg="serving (http://[^"]+)"`)

// start starts a server in a folder, and waits until it serves.
func start(t *testing.T, cmd *exec.Cmd, dir string) *server {
	t.Helper()
	s := &server{t: t, cmd: cmd, done: make(chan error, 1)}
	cmd.Dir = dir
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = in, in
	err = cmd.Start()
	_ = in.Close()
	if err != nil {
		t.Fatal(err)
	}
	found := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			fmt.Fprintln(&s.log, lines.Text())
			if match := serving.FindStringSubmatch(lines.Text()); match != nil {
				found <- match[1]
			}
		}
		_ = out.Close()
		s.done <- cmd.Wait()
	}()
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // unless it has ended
	select {
	case s.url = <-found:
	case err := <-s.done:
		t.Fatalf("%s: %v\n%s", cmd, err, &s.log)
	case <-time.After(5 * time.Minute):
		t.Fatalf("%s does not serve\n%s", cmd, &s.log)
	}
	return s
}

// visit asks for the first page, twice.
func (s *server) visit() {
	s.t.Helper()
	for _, want := range []string{"isr; fwd=miss", "isr; hit"} {
		resp, err := http.Get(s.url)
		if err != nil {
			s.t.Fatalf("%v\n%s", err, &s.log)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if got := resp.Header.Get("Cache-Status"); resp.StatusCode != http.StatusOK || !strings.HasPrefix(got, want) {
			s.t.Errorf("%s: %s, Cache-Status %q, want %q", s.url, resp.Status, got, want)
		}
	}
}

// stop ends a server as a service manager does.
func (s *server) stop() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	select {
	case err := <-s.done:
		if err != nil {
			s.t.Errorf("%s: %v\n%s", s.cmd, err, &s.log)
		}
	case <-time.After(5 * time.Minute):
		s.t.Errorf("%s does not stop\n%s", s.cmd, &s.log)
	}
}

// A buffer is a bytes.Buffer that is safe for concurrent use.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
