package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	versions "github.com/facetheory/isr/internal/version"
)

type versionCommand struct{}

func (versionCommand) Run(s *streams) error {
	b := build()
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
	_, err := fmt.Fprintf(s.out, "isr %s (%s)\n", b.Version, strings.Join(parts, ", "))
	return err
}

// build returns what this program was built from.
func build() versions.Build {
	info, _ := debug.ReadBuildInfo()
	return versions.Of(info)
}

// version returns the version of this program, with the revision unless it is a release.
func version() string { return build().Version }
