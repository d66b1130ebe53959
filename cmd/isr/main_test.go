package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"isr": main})
}

// The command line is tested by scripts: testdata/*.txtar.
func TestScripts(t *testing.T) { testscript.Run(t, scripts("testdata")) }

// scripts returns the parameters of the scripts in a folder.
func scripts(dir string) testscript.Params {
	return testscript.Params{
		Dir: dir,
		Setup: func(env *testscript.Env) error {
			for _, name := range []string{"ADDRESS", "DYNAMODB", "ADMIN", "ORIGIN"} {
				address, err := freeAddress()
				if err != nil {
					return err
				}
				env.Setenv(name, address)
			}
			env.Setenv("ISR_ADMIN", "none") // the default address is shared by all scripts
			env.Setenv("AWS_EC2_METADATA_DISABLED", "true")
			env.Setenv("ISR_STORE_TIMEOUT", "30s") // of a busy machine
			env.Values[pendingKey{}] = new(*pending)
			env.Values[hangingKey{}] = make(chan net.Conn)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"expand":    expand,
			"await":     awaitStatus,
			"hangup":    hangUpServer,
			"fetch":     fetch,
			"keep":      keep,
			"site":      startSite,
			"purge":     purge,
			"dynamodb":  callDynamoDB,
			"begin":     beginCall,
			"finish":    finishCall,
			"gone":      gone,
			"tokenfrom": setToken,
			"webhook":   webhook,
			"origin":    fetchFrom,
			"hang":      hangUp,
			"hung":      awaitHanging,
		},
	}
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// keep NAME REGEXP sets a variable to what the first group of a regular expression matches in
// the output of the last command.
func keep(ts *testscript.TestScript, _ bool, args []string) {
	found := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if len(found) < 2 {
		ts.Fatalf("the output does not match %s", args[1])
	}
	ts.Setenv(args[0], found[1])
}

// fetch URL [HEADER...] prints the status, Cache-Status and body of a page, waiting for a
// server that is just starting. It keeps no cookies.
func fetch(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: fetch URL [HEADER...]")
	}
	var res *http.Response
	until(ts, "fetch "+args[0], func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, args[0], http.NoBody)
		ts.Check(err)
		// By default no page gets codings, which are made in the background.
		req.Header.Set("Accept-Encoding", "identity")
		for _, header := range args[1:] {
			name, value, _ := strings.Cut(header, ": ")
			req.Header.Add(name, value)
		}
		res, err = trusting().Do(req)
		return err
	})
	body, err := io.ReadAll(res.Body)
	ts.Check(err)
	ts.Check(res.Body.Close())
	_, err = fmt.Fprintf(ts.Stdout(), "%d\n%s\n%s", res.StatusCode, res.Header.Get("Cache-Status"), body)
	ts.Check(err)
}

// trusting returns a client that accepts any certificate.
func trusting() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // of tests
}

// expand FILE... replaces variables in files.
func expand(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		text := os.Expand(ts.ReadFile(name), ts.Getenv)
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o600))
	}
}

// hangup FOLDER sends SIGHUP to the server of a data folder.
func hangUpServer(ts *testscript.TestScript, _ bool, args []string) {
	pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(filepath.Join(args[0], "isr.lock"))))
	ts.Check(err)
	ts.Check(syscall.Kill(pid, syscall.SIGHUP))
}

// await ADDRESS PATH TEXT waits until Cache-Status contains a text.
func awaitStatus(ts *testscript.TestScript, _ bool, args []string) {
	until(ts, "await", func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+args[0]+args[1], http.NoBody)
		ts.Check(err)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		ts.Check(res.Body.Close())
		if status := res.Header.Get("Cache-Status"); !strings.Contains(status, args[2]) {
			return fmt.Errorf("Cache-Status %q", status)
		}
		return nil
	})
}

// purge URL [HEADER...] prints the status and body of the response to a PURGE request.
func purge(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: purge URL [HEADER...]")
	}
	req, err := http.NewRequestWithContext(context.Background(), "PURGE", args[0], http.NoBody)
	ts.Check(err)
	for _, header := range args[1:] {
		name, value, _ := strings.Cut(header, ": ")
		req.Header.Add(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	ts.Check(err)
	body, err := io.ReadAll(res.Body)
	ts.Check(err)
	ts.Check(res.Body.Close())
	_, err = fmt.Fprintf(ts.Stdout(), "%d\n%s", res.StatusCode, body)
	ts.Check(err)
}

// scriptPatience bounds each wait of a script.
const scriptPatience = time.Minute

// until polls until done returns nil. Scripts wait only here.
func until(ts *testscript.TestScript, what string, done func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), scriptPatience)
	ts.Defer(cancel)
	for err := done(ctx); err != nil; err = done(ctx) {
		select {
		case <-ctx.Done():
			ts.Fatalf("%s: %v", what, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestUnits(t *testing.T) {
	for text, want := range map[string]time.Duration{"90s": 90 * time.Second, "30d": 30 * 24 * time.Hour, "0.5d": 12 * time.Hour, "0": 0, "1h30m": 90 * time.Minute} {
		var s span
		if err := s.UnmarshalText([]byte(text)); err != nil || time.Duration(s) != want {
			t.Errorf("%q is %v, %v; want %v", text, time.Duration(s), err, want)
		}
	}
	for text, want := range map[string]int64{"0": 0, "1024": 1024, "256MiB": 256 << 20, "1GiB": 1 << 30, "5KB": 5000, "7B": 7} {
		var s size
		if err := s.UnmarshalText([]byte(text)); err != nil || int64(s) != want {
			t.Errorf("%q is %d, %v; want %d", text, s, err, want)
		}
	}
	for _, text := range []string{"", "x", "-1s", "5", "4000d", "1y", "NaNd"} {
		if err := new(span).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("the duration %q is accepted", text)
		}
	}
	for _, text := range []string{"", "x", "-1", "1.5GiB", "99999999999GiB", "1TB"} {
		if err := new(size).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("the size %q is accepted", text)
		}
	}
}

func TestSpanText(t *testing.T) {
	for want, d := range map[string]time.Duration{"0s": 0, "59s": 59 * time.Second, "1m5s": 65 * time.Second, "2h0m": 2 * time.Hour, "3d4h": 76 * time.Hour, "-5s": -5 * time.Second} {
		if got := spanText(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

func TestSocketPathIsShort(t *testing.T) {
	long := t.TempDir()
	for range 12 {
		long += "/deep-folder"
	}
	if path, err := socketPath(long); err == nil && len(path) > 104 {
		t.Errorf("%s has %d bytes", path, len(path))
	}
	if err := os.MkdirAll(long, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(long)
	if path, err := socketPath(long); err != nil || path != socketName {
		t.Errorf("from within the folder: %q, %v", path, err)
	}
}

// Only the user of the server can connect to its socket, and files that are made meanwhile keep
// their modes.
func TestSocketIsPrivate(t *testing.T) {
	for range 50 {
		dir, made := t.TempDir(), make(chan error)
		go func() { made <- os.Mkdir(dir+"/folder", 0o700) }()
		socket, err := listenSocket(&folder{path: dir}, http.NotFoundHandler(), slog.New(slog.DiscardHandler))
		if err := errors.Join(err, <-made); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]os.FileMode{socketName: 0o600, "folder": 0o700} {
			if info, err := os.Stat(dir + "/" + name); err != nil || info.Mode().Perm() != want {
				t.Errorf("%s: %v, %v", name, info.Mode(), err)
			}
		}
		if err := socket.server.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
