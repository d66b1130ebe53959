package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"isr": main})
}

// The command line is tested by scripts: testdata/*.txtar.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
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
			env.Values[pendingKey{}] = new(*pending)
			env.Values[hangingKey{}] = make(chan net.Conn)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"fetch":     fetch,
			"dynamodb":  callDynamoDB,
			"begin":     beginCall,
			"finish":    finishCall,
			"gone":      gone,
			"tokenfrom": setToken,
			"origin":    fetchFrom,
			"hang":      hangUp,
			"hung":      awaitHanging,
		},
	})
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// fetch URL prints the status, Cache-Status and body of a page, waiting for a
// server that is just starting.
func fetch(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: fetch URL")
	}
	var res *http.Response
	until(ts, "fetch "+args[0], func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, args[0], http.NoBody)
		ts.Check(err)
		res, err = http.DefaultClient.Do(req)
		return err
	})
	body, err := io.ReadAll(res.Body)
	ts.Check(err)
	ts.Check(res.Body.Close())
	_, err = fmt.Fprintf(ts.Stdout(), "%d\n%s\n%s", res.StatusCode, res.Header.Get("Cache-Status"), body)
	ts.Check(err)
}

// scriptPatience bounds each wait of a script.
const scriptPatience = 30 * time.Second

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
