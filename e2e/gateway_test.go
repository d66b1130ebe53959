package e2e

import (
	"context"
	"regexp"
	"testing"
	"time"

	"github.com/facetheory/isr/e2e/internal/process"
)

// A gateway is a process that runs isr serve.
type gateway struct {
	settings
	process *process.Process
	url     string
}

// serve starts isr serve in front of an origin and waits until it listens. At
// the end of the test the process is killed, and its log must be free of panics
// and data races.
func serve(t *testing.T, s settings, origin *origin) *gateway {
	t.Helper()
	args := append([]string{"--origin", origin.server.URL, "--listen", "127.0.0.1:0", "--host", host, "--host", "127.0.0.1"}, s.args...)
	cmd := s.command(context.Background(), t, "serve", args...)
	g := &gateway{settings: s}
	g.process, g.url = process.Serve(t, cmd, regexp.MustCompile(`msg="serving (http://[^"]+)"`))
	t.Cleanup(g.kill) // an orderly stop would wait for origins that hang
	return g
}

// kill is kill -9.
func (g *gateway) kill() { g.process.Kill() }

// terminate sends SIGTERM.
func (g *gateway) terminate(t *testing.T) {
	t.Helper()
	g.process.Terminate(t)
}

// awaitExit waits for the end of a terminated process and returns how long that took.
func (g *gateway) awaitExit(t *testing.T, within time.Duration) time.Duration {
	t.Helper()
	return g.process.AwaitEnd(t, within)
}
