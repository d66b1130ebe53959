// Package e2e tests the real isr binary as its users run it: many concurrent visitors, a fleet
// on one table, kill -9, a failing origin, an invalid command line.
//
//	visitors (storm) -> isr serve (gateway, one process or several) -> origin
//	                         |
//	               data folder, or DynamoDB and S3 (cloud)
//
// Visitors and origin run in the test process; everything between them is the binary. Figures
// are printed with -v. No test fails because it is slow, only because a visitor waits who must
// not wait.
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
	if address := os.Getenv(originAddress); address != "" {
		fmt.Fprintln(os.Stderr, serveOrigin(address))
		os.Exit(1)
	}
	if err := waitTogether(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(process.Main(m))
}

// waitTogether sets -parallel higher than the number of processors, unless the command line
// does: these tests spend their time waiting.
func waitTogether() error {
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		return f.Value.Set("6")
	}
	return nil
}
