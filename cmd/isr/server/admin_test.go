package server

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/handover"
)

func TestTokenIsStored(t *testing.T) {
	f := &Folder{path: t.TempDir()}
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
	other, _, err := keptToken(&Folder{path: t.TempDir()})
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
		want     string // the address; empty if there is none, "refused" for an error
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
		t.Setenv(TokenVariable, c.token)
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
	s := &cli.Streams{Out: io.Discard, Err: w}
	taken, err := adminPlan{address: loopback(), secret: "sixteen-letters!"}.listen(t.Context(), new(handover.Sockets), nil, &Folder{path: "data"}, s, LogFlag{}.Logger(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.server.Close() })
	_, after, _ := strings.Cut(w.String(), "http://")
	p := adminPlan{address: loopback()}
	if _, err := fmt.Sscanf(after, "127.0.0.1:%d", &p.address.Port); err != nil {
		t.Fatalf("%v: %s", err, w)
	}
	second, err := p.listen(t.Context(), new(handover.Sockets), nil, &Folder{path: "data"}, s, LogFlag{}.Logger(s))
	if second != nil || err != nil || !strings.Contains(w.String(), "level=WARN") || !strings.Contains(w.String(), "give one with --admin") {
		t.Errorf("%v, %v: %s", second, err, w)
	}
	p.chosen = true
	if _, err := p.listen(t.Context(), new(handover.Sockets), nil, &Folder{path: "data"}, s, LogFlag{}.Logger(s)); err == nil || !strings.Contains(err.Error(), "--admin none") {
		t.Errorf("an address that was chosen: %v", err)
	}
}

func loopback() *net.TCPAddr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
