package sites

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/e2e/internal/process"
	"github.com/facetheory/isr/internal/testbed"
)

// startTime bounds how long a server may take to answer on a busy machine.
const startTime = 3 * time.Minute

// startSite starts the site in a folder, with further variables of its environment, and returns its address.
func startSite(t *testing.T, folder string, variables ...string) string {
	t.Helper()
	address, err := testbed.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(address, ":")
	cmd := exec.Command(filepath.Join(folder, "run"), "serve", port)
	cmd.Env = append(os.Environ(), variables...)
	p := process.Start(t, cmd)
	address = "http://" + address
	p.Await(t, "the site in "+folder+" answered", startTime, func() bool {
		res, err := http.Get(address)
		if err != nil {
			return false
		}
		return res.Body.Close() == nil
	})
	return address
}

func TestMain(m *testing.M) { os.Exit(process.Main(m)) }

// A gate is a running isr serve.
type gate struct {
	program, address, data string
}

// startGate starts isr serve in front of a site.
func startGate(t *testing.T, program, origin string, flags ...string) gate {
	t.Helper()
	g := gate{program: program, data: filepath.Join(t.TempDir(), "isr-data")}
	flags = append([]string{"serve", "--origin", origin, "--listen", "127.0.0.1:0", "--data", g.data, "--store-timeout", "10s"}, flags...)
	_, g.address = process.Serve(t, exec.Command(program, flags...), regexp.MustCompile(`serving (http://127\.0\.0\.1:\d+)`))
	return g
}

// stored returns the stored pages as isr ls lists them on a running server.
func (g gate) stored(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), g.program, "ls", "--json", "--data", g.data).CombinedOutput()
	if err != nil {
		t.Fatalf("isr ls: %v\n%s", err, out)
	}
	var stored strings.Builder
	for line := range strings.Lines(string(out)) {
		if !strings.Contains(line, `"state":"missing"`) { // "missing" is a back-off without a page
			stored.WriteString(line)
		}
	}
	return stored.String()
}
