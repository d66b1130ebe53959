// Package cli is what the commands of isr share: streams, usage errors, the units of flags, the version of the
// program, and URLs of pages. It does not know a server.
package cli

import (
	"fmt"
	"io"
	"net/url"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/facetheory/isr/internal/canonical"
	versions "github.com/facetheory/isr/internal/version"
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

// VersionCommand is isr version.
type VersionCommand struct{}

// Run prints the version, the revision and the toolchain.
func (VersionCommand) Run(s *Streams) error {
	b := Build()
	var parts []string
	if b.Revision != "" {
		parts = append(parts, "revision "+b.Revision)
	}
	if !b.Time.IsZero() {
		parts = append(parts, b.Time.UTC().Format(time.RFC3339))
	}
	if b.Modified {
		parts = append(parts, "modified")
	}
	parts = append(parts, runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH)
	_, err := fmt.Fprintf(s.Out, "isr %s (%s)\n", b.Version, strings.Join(parts, ", "))
	return err
}

// Build returns what this program was built from.
func Build() versions.Build {
	info, _ := debug.ReadBuildInfo()
	return versions.Of(info)
}

// Version returns the version of this program, with the revision unless it is a release.
func Version() string { return Build().Version }

// ParsePageURL parses the URL of a page as browsers read it: http or https, with a host and without
// credentials.
func ParsePageURL(text string) (*url.URL, bool) {
	u, err := url.Parse(canonical.Address(text))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return nil, false
	}
	return u, true
}
