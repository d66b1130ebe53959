// Package e2e starts the real isr binary as processes and behaves towards it as
// users do: many visitors at once, a fleet on one table, kill -9, an origin in
// trouble, a command line that cannot work.
//
//	visitors (storm) -> isr serve (gateway, one process or several) -> origin
//	                         |
//	               data folder, or DynamoDB and S3 (cloud)
//
// Visitors and origin live in the test process; everything between them is the
// binary. Figures are printed with -v. Nothing fails for
// being slow, only for waiting where nobody may wait.
package e2e

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/facetheory/isr/e2e/internal/process"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := waitTogether(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(process.Main(m))
}

// waitTogether lets more tests run in parallel than there are processors, unless
// the command line says how many: they spend their time waiting.
func waitTogether() error {
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		return f.Value.Set("6")
	}
	return nil
}
