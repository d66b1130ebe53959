package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	versions "github.com/facetheory/isr/internal/version"
)

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
