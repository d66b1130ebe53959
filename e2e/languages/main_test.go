package languages

import (
	"fmt"
	"os"
	"testing"

	"github.com/facetheory/isr/e2e/internal/process"
)

// workerVariable is the environment variable that makes this test binary run as the worker in
// Go.
const workerVariable = "ISR_LANGUAGES_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(workerVariable) == "" {
		os.Exit(process.Main(m))
	}
	if err := serveCommands(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
