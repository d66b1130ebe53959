// Package e2e starts the real isr binary as processes and behaves towards it as
// users do: many visitors at once, a fleet on one table, kill -9, an origin in
// trouble, a command line that cannot work.
//
//	visitors (storm) -> isr serve (gateway, one process or several) -> origin
//	                         |
//	               data folder, or DynamoDB and S3 (cloud)
//
// Visitors and origin live in the test process; everything between them is the
// binary, which TestMain builds. Figures are printed with -v. Nothing fails for
// being slow, only for waiting where nobody may wait.
package e2e

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/facetheory/isr/e2e/internal/process"
)

// binaryEnv names the binary that is tested. Where it is not set, TestMain
// builds one, with the race detector if the tests have it.
const binaryEnv = "ISR_TEST_BINARY"

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	if err := waitTogether(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if os.Getenv(binaryEnv) != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "isr-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary, err := process.Build(dir, process.Race)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	// One test runs it as another user.
	if err := os.Chmod(dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := os.Setenv(binaryEnv, binary); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// waitTogether lets more tests run in parallel than there are processors, unless
// the command line says how many: they spend their time waiting.
func waitTogether() error {
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		return f.Value.Set("6")
	}
	return nil
}
