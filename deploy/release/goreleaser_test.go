package main

import (
	"path/filepath"
	"testing"

	"github.com/goreleaser/goreleaser/v2/pkg/config"
)

// TestGoReleaserFile reads .goreleaser.yaml as GoReleaser does, which refuses unknown fields. docs/install.md
// has the command of the whole check, which takes too long to compile here.
func TestGoReleaserFile(t *testing.T) {
	project, err := config.Load(filepath.Join(repository(t), ".goreleaser.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if project.Version != 2 || project.Release.GitHub.Name != "isr" || len(project.Release.ExtraFiles) != 1 {
		t.Errorf("read %+v", project.Release)
	}
}
