// Package version says which build of isr a program is.
package version

import (
	"regexp"
	"runtime/debug"
	"time"
)

// Number is the version of the module: the version of the newest section of CHANGELOG.md, of the
// npm package and of the Python distribution (clients/version_test.go compares them).
const Number = "0.1.0"

// A Build is what a program was built from.
type Build struct {
	// Version is Number for a build of its tag, or of a source archive. For another commit the
	// revision follows as build metadata of SemVer: "0.1.0+1a2b3c4d5e6f", and ".modified" if
	// the checkout had changes.
	Version string
	// Revision is the commit; empty if it is not known.
	Revision string
	// Time is the time of the commit; zero if it is not known.
	Time time.Time
	// Modified reports whether the checkout had changes that were not committed.
	Modified bool
}

// shortRevision is the number of digits of a revision in a version.
const shortRevision = 12

// pseudo matches the commit in the version of a module without a tag:
// v0.0.0-20261124060947-1a2b3c4d5e6f.
var pseudo = regexp.MustCompile(`[-.]\d{14}-([0-9a-f]{12})(?:\+|$)`)

// Of returns the build that the build information of a binary describes; nil describes none.
func Of(info *debug.BuildInfo) Build {
	b := Build{Version: Number}
	if info == nil {
		return b
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.Revision = setting.Value
		case "vcs.time":
			b.Time, _ = time.Parse(time.RFC3339, setting.Value) // of Go's linker
		case "vcs.modified":
			b.Modified = setting.Value == "true"
		}
	}
	if found := pseudo.FindStringSubmatch(info.Main.Version); found != nil && b.Revision == "" {
		b.Revision = found[1]
	}
	if b.Revision != "" && info.Main.Version != "v"+Number {
		b.Version += "+" + b.Revision[:min(shortRevision, len(b.Revision))]
		if b.Modified {
			b.Version += ".modified"
		}
	}
	return b
}
