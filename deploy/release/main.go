// Command release makes everything that a release consists of, in one folder: archives, packages
// for Debian and RPM systems, a container image, a Homebrew cask, bills of materials, and
// checksums.
//
//	go run -C deploy/release . --output "$PWD/dist"
//
// It needs Go only. What it makes is reproducible: the same commit, built by the same version of
// Go, gives the same bytes, at any time and in any folder. SOURCE_DATE_EPOCH is the time in the
// archives; without it, the time of the commit.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/alecthomas/kong"

	"github.com/facetheory/isr/internal/version"
)

type command struct {
	Output   string     `required:"" type:"path" placeholder:"DIR" help:"Folder for the release, which must be empty or missing."`
	Source   string     `default:"../.." type:"path" placeholder:"DIR" help:"Checkout of the repository (${default})."`
	Platform []platform `default:"linux/amd64,linux/arm64,darwin/amd64,darwin/arm64" placeholder:"OS/ARCH" help:"Platform to build for; repeatable (${default})."`
}

func main() {
	var c command
	parsed := kong.Parse(&c, kong.Name("release"), kong.Description("Make a release of isr: archives, packages, an image, a cask, bills of materials and checksums."))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r, err := run(ctx, c, time.Now)
	parsed.FatalIfErrorf(err)
	fmt.Printf("isr %s of %s, in %s:\n", r.build.Version, r.time.Format(time.RFC3339), c.Output)
	for _, name := range r.made {
		info, err := os.Stat(filepath.Join(c.Output, name))
		parsed.FatalIfErrorf(err)
		fmt.Printf("%9.1f KiB  %s\n", float64(info.Size())/1024, name)
	}
}

// A release is what is made of one commit.
type release struct {
	source, output string
	build          version.Build
	time           time.Time // of everything in archives
	binaries       []binary
	docs           docs
	made           []string // names of files in output, in the order of their making
}

// run makes a release. now is the time of a build that has no other.
func run(ctx context.Context, c command, now func() time.Time) (*release, error) {
	if err := emptyFolder(c.Output); err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp("", "isr-release-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(work) }()
	r := &release{source: c.Source, output: c.Output}
	if err := r.compile(ctx, work, c.Platform); err != nil {
		return nil, err
	}
	if r.time, err = releaseTime(r.build, now); err != nil {
		return nil, err
	}
	if r.docs, err = r.readDocs(ctx, work); err != nil {
		return nil, err
	}
	for _, b := range r.binaries {
		if err := r.archive(b); err != nil {
			return nil, fmt.Errorf("archive for %s: %w", b.platform, err)
		}
		if err := r.billOfMaterials(ctx, b); err != nil {
			return nil, fmt.Errorf("bill of materials for %s: %w", b.platform, err)
		}
		if b.platform.os != "linux" {
			continue
		}
		for _, format := range []string{"deb", "rpm"} {
			if err := r.packageFor(b, format); err != nil {
				return nil, fmt.Errorf("%s for %s: %w", format, b.platform, err)
			}
		}
	}
	if err := r.image(); err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	if err := r.cask(); err != nil {
		return nil, fmt.Errorf("cask: %w", err)
	}
	return r, r.checksums()
}

// emptyFolder makes a folder, and refuses one that has files: they would be taken for a part of
// the release.
func emptyFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	found, err := os.ReadDir(dir)
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("the folder %s is not empty (it has %s); remove it, or give another with --output", dir, found[0].Name())
	}
	return err
}

// releaseTime returns SOURCE_DATE_EPOCH, else the time of the commit, else now.
func releaseTime(b version.Build, now func() time.Time) (time.Time, error) {
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	switch {
	case epoch != "":
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil || seconds < 0 {
			return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH must be the seconds since 1970 (got %q)", epoch)
		}
		return time.Unix(seconds, 0).UTC(), nil
	case !b.Time.IsZero():
		return b.Time.UTC(), nil
	}
	return now().UTC().Truncate(time.Second), nil
}

// path returns the path of a file of the release, and notes its name.
func (r *release) path(name string) string {
	r.made = append(r.made, name)
	return filepath.Join(r.output, name)
}

// name returns the name of a file for a platform: isr_0.1.0_linux_amd64.
func (r *release) name(p platform) string {
	return fmt.Sprintf("isr_%s_%s_%s", r.build.Version, p.os, p.arch)
}

// checksums writes SHA256SUMS in the format of sha256sum.
func (r *release) checksums() error {
	var text []byte
	for _, name := range slices.Sorted(slices.Values(r.made)) {
		sum, err := sha256Of(filepath.Join(r.output, name))
		if err != nil {
			return err
		}
		text = fmt.Appendf(text, "%s  %s\n", sum, name)
	}
	return os.WriteFile(r.path("SHA256SUMS"), text, 0o644)
}
