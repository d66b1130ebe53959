package server

import (
	"testing"

	"github.com/alecthomas/kong"
)

// The digest depends on the settings that a fleet shares, and not on the settings of a machine.
func TestDigestOfFlags(t *testing.T) {
	digest := func(args ...string) string {
		t.Helper()
		var grammar struct {
			Serve ServeCommand `cmd:""`
		}
		parser, err := kong.New(&grammar, kong.DefaultEnvars("ISR"))
		if err != nil {
			t.Fatal(err)
		}
		k, err := parser.Parse(append([]string{"serve", "--origin", "http://127.0.0.1:3000", "--listen", "127.0.0.1:8080"}, args...))
		if err != nil {
			t.Fatal(err)
		}
		file, err := grammar.Serve.read(givenFlags(k))
		if err != nil {
			t.Fatal(err)
		}
		return newDigest(&grammar.Serve, file).get()
	}
	want := digest()
	for _, args := range [][]string{
		{"--listen", "127.0.0.1:9090"},
		{"--data", t.TempDir(), "--admin", "127.0.0.1:0"},
		{"--dynamodb-access-key", "id", "--dynamodb-secret-key", "secret"},
	} {
		if got := digest(args...); got != want {
			t.Errorf("%q: digest %s, want %s", args, got, want)
		}
	}
	for _, args := range [][]string{
		{"--memory", "1GiB"},
		{"--poll", "1s"},
		{"--host", "example.com"},
		{"--revalidate", "60s"},
		{"--trusted-proxy", "10.0.0.0/8"},
		{"--guard", "monotonic"},
		{"--downstream", "cdn=varnish:http://10.0.0.5"},
	} {
		if digest(args...) == want {
			t.Errorf("%q: the same digest", args)
		}
	}
}
