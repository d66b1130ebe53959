package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
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

	"github.com/facetheory/isr/internal/testbed"
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
				address, err := testbed.FreeAddress()
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

// await ADDRESS PATH REGEXP waits until Cache-Status matches a regular expression. Pages of the demonstration site are fresh for 10 s:
// a script on a busy machine waits for "hit; ttl=[6-9]" before it needs a fresh one.
func awaitStatus(ts *testscript.TestScript, _ bool, args []string) {
	expected := regexp.MustCompile(args[2])
	until(ts, "await", func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+args[0]+args[1], http.NoBody)
		ts.Check(err)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		ts.Check(res.Body.Close())
		if status := res.Header.Get("Cache-Status"); !expected.MatchString(status) {
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
const scriptPatience = 5 * time.Minute

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
