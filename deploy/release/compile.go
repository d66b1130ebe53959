package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/facetheory/isr/internal/version"
)

// A platform is what a binary runs on, in the words of Go.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// UnmarshalText parses a platform of the command line.
func (p *platform) UnmarshalText(text []byte) error {
	os, arch, ok := strings.Cut(string(text), "/")
	if !ok || os != "linux" && os != "darwin" || arch != "amd64" && arch != "arm64" {
		return fmt.Errorf("%q is not a platform; expected linux or darwin, /, and amd64 or arm64", text)
	}
	*p = platform{os, arch}
	return nil
}

// A binary is isr for one platform.
type binary struct {
	platform platform
	path     string
	info     *debug.BuildInfo
}

// compile builds isr for the platforms, in a folder for each.
func (r *release) compile(ctx context.Context, work string, platforms []platform) error {
	for _, p := range platforms {
		b, err := r.compileFor(ctx, work, p)
		if err != nil {
			return fmt.Errorf("build for %s: %w", p, err)
		}
		build := version.Of(b.info)
		if len(r.binaries) > 0 && build != r.build {
			return fmt.Errorf("the checkout has changed: the binary for %s is %+v, that for %s %+v; release again", p, build, r.binaries[0].platform, r.build)
		}
		r.build = build
		r.binaries = append(r.binaries, b)
	}
	return nil
}

func (r *release) compileFor(ctx context.Context, work string, p platform) (binary, error) {
	path := filepath.Join(work, p.os+"_"+p.arch, "isr")
	// timetzdata: images have no database of time zones.
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=auto", "-tags=timetzdata", "-ldflags=-s -w -buildid=", "-o", path, "./cmd/isr")
	cmd.Dir = r.source
	cmd.Env = append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch, "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0")
	if err := output(cmd, nil); err != nil {
		return binary{}, err
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return binary{}, err
	}
	return binary{platform: p, path: path, info: info}, nil
}

// output runs a command and writes its standard output to out, if that is not nil. An error
// has its standard error.
func output(cmd *exec.Cmd, out io.Writer) error {
	var problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &problems
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, problems.Bytes())
	}
	return nil
}

// hostBinary returns the binary that runs here, which it builds unless the release has it.
func (r *release) hostBinary(ctx context.Context, work string) (binary, error) {
	host := platform{runtime.GOOS, runtime.GOARCH}
	for _, b := range r.binaries {
		if b.platform == host {
			return b, nil
		}
	}
	return r.compileFor(ctx, work, host)
}

// sha256Of returns the checksum of a file, in hexadecimal digits.
func sha256Of(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
