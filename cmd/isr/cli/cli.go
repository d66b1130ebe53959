// Package cli is what the commands of isr share: streams, usage errors, the units of flags, the version of the
// program, and URLs of pages. It does not know a server.
package cli

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// Streams are where a command reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Debug    bool // details for debugging are written too
}

// A UsageError is an invalid command line, or faults that isr doctor has found; the exit code
// is 2.
type UsageError struct{ text string }

// Error implements error.
func (e *UsageError) Error() string { return e.text }

// Usagef returns a [UsageError] with a text.
func Usagef(format string, args ...any) error {
	return &UsageError{fmt.Sprintf(format, args...)}
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
