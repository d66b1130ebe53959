package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// setToken sets ISR_ADMIN_TOKEN from a file:
//
//	tokenfrom FILE
func setToken(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: tokenfrom FILE")
	}
	ts.Setenv(tokenVariable, strings.TrimSpace(ts.ReadFile(args[0])))
}

// fetchFrom prints the status and body of the response to a web page:
//
//	origin ORIGIN URL
func fetchFrom(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: origin ORIGIN URL")
	}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, args[1], http.NoBody)
	ts.Check(err)
	req.Header.Set("Origin", args[0])
	res, err := http.DefaultClient.Do(req)
	ts.Check(err)
	body, err := io.ReadAll(res.Body)
	ts.Check(err)
	ts.Check(res.Body.Close())
	_, err = fmt.Fprintf(ts.Stdout(), "%d\n%s", res.StatusCode, body)
	ts.Check(err)
}

// hangingKey is the key of a script's channel of hanging requests.
type hangingKey struct{}

// hangUp starts a site that never responds:
//
//	hang ADDRESS
func hangUp(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: hang ADDRESS")
	}
	listener, err := net.Listen("tcp", args[0])
	ts.Check(err)
	asked := ts.Value(hangingKey{}).(chan net.Conn)
	ctx, cancel := context.WithCancel(context.Background())
	ts.Defer(func() {
		cancel()
		_ = listener.Close()
	})
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the end of the script
			}
			context.AfterFunc(ctx, func() { _ = conn.Close() })
			if _, err := conn.Read(make([]byte, 1)); err != nil {
				continue // a probe of warnOfOrigin
			}
			select {
			case asked <- conn:
			case <-ctx.Done():
			}
		}
	}()
}

// awaitHanging waits for the next hanging request.
func awaitHanging(ts *testscript.TestScript, _ bool, _ []string) {
	select {
	case <-ts.Value(hangingKey{}).(chan net.Conn):
	case <-time.After(scriptPatience):
		ts.Fatalf("the site was not asked")
	}
}

func TestTokenIsStored(t *testing.T) {
	f := &folder{path: t.TempDir()}
	first, fresh, err := keptToken(f)
	if err != nil || !fresh {
		t.Fatalf("the first time: fresh %t, %v", fresh, err)
	}
	again, fresh, err := keptToken(f)
	if err != nil || fresh || again != first {
		t.Errorf("the second time: fresh %t, the same %t, %v", fresh, again == first, err)
	}
	files, err := os.ReadDir(f.path)
	if err != nil || len(files) != 1 {
		t.Errorf("%v, %v; want the token alone", files, err)
	}
	other, _, err := keptToken(&folder{path: t.TempDir()})
	if err != nil || other == first {
		t.Errorf("two folders have one token, %v", err)
	}
	if err := os.Remove(tokenPath(f)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(tokenPath(f), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, _, err := keptToken(f); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("a folder in its place: %v", err)
	}
}

// The default address is used only with an embedded store or a token.
func TestAdminPlan(t *testing.T) {
	address := func(s string) *string { return &s }
	t.Setenv(readTokenVariable, "sixteen-letters?")
	for name, c := range map[string]struct {
		admin    *string
		embedded bool
		token    string
		want     string // the address; empty for none, "refused" for an error
		chosen   bool
	}{
		"embedded":                     {nil, true, "", "127.0.0.1:9180", false},
		"embedded, own token":          {nil, true, "sixteen-letters!", "127.0.0.1:9180", false},
		"table":                        {nil, false, "", "", false},
		"table, token":                 {nil, false, "sixteen-letters!", "127.0.0.1:9180", false},
		"chosen":                       {address("127.0.0.1:1"), true, "", "127.0.0.1:1", true},
		"none":                         {address("none"), true, "", "", true},
		"empty":                        {address(""), true, "", "", true},
		"table, chosen":                {address("127.0.0.1:1"), false, "", "refused", true},
		"network":                      {address("0.0.0.0:1"), true, "", "refused", true},
		"network, token":               {address("0.0.0.0:1"), true, "sixteen-letters!", "0.0.0.0:1", true},
		"the token that may only read": {nil, true, "sixteen-letters?", "refused", false},
		"short token":                  {address("none"), true, "fifteen-letters", "refused", true},
		"token that is not printable":  {nil, true, "sixteen letters!", "refused", false},
	} {
		t.Setenv(tokenVariable, c.token)
		p, err := adminFlags{Admin: c.admin}.plan(c.embedded)
		got := ""
		switch {
		case err != nil:
			got = "refused"
		case p.address != nil:
			got = p.address.String()
		}
		if got != c.want || err == nil && p.chosen != c.chosen {
			t.Errorf("%s: %s, chosen %t, %v; want %s", name, got, p.chosen, err, c.want)
		}
	}
}

// A server does without the admin address if the default address is in use.
func TestBusyDefaultAddress(t *testing.T) {
	w := new(strings.Builder)
	s := &streams{out: io.Discard, err: w}
	taken, err := adminPlan{address: loopback(), secret: "sixteen-letters!"}.listen(nil, &folder{path: "data"}, s, logFlag{}.logger(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.server.Close() })
	_, after, _ := strings.Cut(w.String(), "http://")
	p := adminPlan{address: loopback()}
	if _, err := fmt.Sscanf(after, "127.0.0.1:%d", &p.address.Port); err != nil {
		t.Fatalf("%v: %s", err, w)
	}
	second, err := p.listen(nil, &folder{path: "data"}, s, logFlag{}.logger(s))
	if second != nil || err != nil || !strings.Contains(w.String(), "level=WARN") || !strings.Contains(w.String(), "give one with --admin") {
		t.Errorf("%v, %v: %s", second, err, w)
	}
	p.chosen = true
	if _, err := p.listen(nil, &folder{path: "data"}, s, logFlag{}.logger(s)); err == nil || !strings.Contains(err.Error(), "--admin none") {
		t.Errorf("an address that was chosen: %v", err)
	}
}

func loopback() *net.TCPAddr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
