package main

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers its format
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers its format
)

// packaged are the files that packages have beside the binary, and their scripts.
//
//go:embed files
var packaged embed.FS

// packageFor writes the package of a binary for a kind of system: deb or rpm.
func (r *release) packageFor(b binary, format string) error {
	work, err := os.MkdirTemp("", "isr-package-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	info, err := r.packageInfo(b, format, work)
	if err != nil {
		return err
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	return writeFile(r.path(packager.ConventionalFileName(info)), func(w io.Writer) error { return packager.Package(info, w) })
}

// packageInfo describes a package, whose files are in work.
func (r *release) packageInfo(b binary, format, work string) (*nfpm.Info, error) {
	zsh := "/usr/share/zsh/vendor-completions"
	if format == "rpm" {
		zsh = "/usr/share/zsh/site-functions"
	}
	targets := map[string]string{
		"isr.bash": "/usr/share/bash-completion/completions/isr", "_isr": zsh + "/_isr", "isr.fish": "/usr/share/fish/vendor_completions.d/isr.fish",
	}
	contents := layout{work: work}
	contents.add("/usr/bin/isr", b.path, 0o755, "")
	for _, e := range r.docs.completions {
		contents.addText(targets[path.Base(e.name)], e.content, "")
	}
	for _, e := range r.docs.pages {
		contents.addText("/usr/share/man/man1/"+path.Base(e.name)+".gz", compressed(e.content), "")
	}
	for _, name := range []string{"CHANGELOG.md", "LICENSE", "README.md"} {
		contents.add("/usr/share/doc/isr/"+name, filepath.Join(r.source, name), 0o644, "")
	}
	contents.addPackaged("/usr/lib/systemd/system/isr.service", "isr.service", "")
	contents.addPackaged("/usr/lib/systemd/system/isr.socket", "isr.socket", "")
	contents.addPackaged("/etc/isr/isr.yaml", "isr.yaml", files.TypeConfigNoReplace)
	scripts := nfpm.Scripts{}
	for name, script := range map[string]*string{"postinstall.sh": &scripts.PostInstall, "preremove.sh": &scripts.PreRemove, "postremove.sh": &scripts.PostRemove} {
		*script = contents.addPackaged("", name, "")
	}
	if contents.err != nil {
		return nil, contents.err
	}
	return nfpm.WithDefaults(&nfpm.Info{
		Name: "isr", Arch: b.platform.arch, Platform: b.platform.os, Version: r.build.Version, Release: "1",
		Section: "web", Priority: "optional", Maintainer: "FaceTheory <https://github.com/facetheory/isr/issues>", Vendor: "FaceTheory",
		Description: "Page cache with incremental static regeneration\nA gateway in front of a web site: it stores rendered pages, and renders each one once per expiry.",
		Homepage:    "https://github.com/facetheory/isr", License: "Apache-2.0", MTime: r.time,
		Overridables: nfpm.Overridables{
			Contents: contents.files, Scripts: scripts, Umask: 0o022,
			RPM: nfpm.RPM{Summary: "Page cache with incremental static regeneration", BuildHost: "localhost", Compression: "zstd"},
			Deb: nfpm.Deb{Compression: "gzip"},
		},
	}), nil
}

// A layout collects the files of a package. Its methods do nothing after an error.
type layout struct {
	work  string // folder for files that are not in the checkout
	files files.Contents
	err   error
}

// add adds a file of this machine under a path of the package's.
func (l *layout) add(target, source string, mode fs.FileMode, kind string) {
	l.files = append(l.files, &files.Content{Source: source, Destination: target, Type: kind, FileInfo: &files.ContentFileInfo{Mode: mode, Owner: "root", Group: "root"}})
}

// addText adds a file with a text; without a target it only writes it. It returns the path of
// the file that the package is made from.
func (l *layout) addText(target string, text []byte, kind string) string {
	source := filepath.Join(l.work, fmt.Sprint(len(l.files))+"-"+path.Base(target))
	if l.err == nil {
		l.err = os.WriteFile(source, text, 0o644)
	}
	if target != "" {
		l.add(target, source, 0o644, kind)
	}
	return source
}

// addPackaged is addText with a file that is embedded in this program.
func (l *layout) addPackaged(target, name, kind string) string {
	text, err := packaged.ReadFile("files/" + name)
	if l.err == nil {
		l.err = err
	}
	if target == "" {
		source := filepath.Join(l.work, name)
		if l.err == nil {
			l.err = os.WriteFile(source, text, 0o644)
		}
		return source
	}
	return l.addText(target, text, kind)
}

// compressed returns a text in gzip's format, without a time.
func compressed(text []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // a valid level
	_, _ = w.Write(text)                                  // to memory
	_ = w.Close()
	return b.Bytes()
}
