package main

import (
	_ "embed"
	"io"
	"path"
	"path/filepath"
	"strings"
	"text/template"
)

// caskTemplate is the text of isr.rb.
//
//go:embed files/isr.rb.tmpl
var caskTemplate string

// caskPlatforms are the names that Homebrew has for the platforms of a cask.
var caskPlatforms = map[platform]string{
	{"darwin", "arm64"}: "arm", {"darwin", "amd64"}: "intel",
	{"linux", "arm64"}: "arm64_linux", {"linux", "amd64"}: "x86_64_linux",
}

// cask writes the cask for Homebrew. A release without all its platforms has none.
func (r *release) cask() error {
	sums := make(map[string]string)
	for _, b := range r.binaries {
		sum, err := sha256Of(filepath.Join(r.output, r.name(b.platform)+".tar.gz"))
		if err != nil {
			return err
		}
		sums[caskPlatforms[b.platform]] = sum
	}
	if len(sums) < len(caskPlatforms) {
		return nil
	}
	var pages []string
	for _, page := range r.docs.pages {
		pages = append(pages, path.Base(page.name))
	}
	text, err := caskText(r.build.Version, sums, pages)
	if err != nil {
		return err
	}
	return writeFile(r.path("isr.rb"), func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}

// caskText returns the text of the cask. sums are the checksums of the archives.
func caskText(version string, sums map[string]string, pages []string) (string, error) {
	parsed, err := template.New("isr.rb").Option("missingkey=error").Parse(caskTemplate)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = parsed.Execute(&b, map[string]any{"Version": version, "Sums": sums, "Pages": pages})
	return b.String(), err
}
