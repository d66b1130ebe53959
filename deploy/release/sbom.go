package main

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/licensecheck"
	"github.com/google/uuid"
)

// billOfMaterials writes what a binary consists of, in CycloneDX's format: the modules in its
// build information, with checksums and licenses, and Go's standard library.
func (r *release) billOfMaterials(ctx context.Context, b binary) error {
	sum, err := sha256Of(b.path)
	if err != nil {
		return err
	}
	folders, err := r.moduleFolders(ctx, b.info.Deps)
	if err != nil {
		return err
	}
	program := cdx.Component{
		BOMRef: "pkg:golang/github.com/facetheory/isr@" + r.build.Version, PackageURL: "pkg:golang/github.com/facetheory/isr@" + r.build.Version,
		Type: cdx.ComponentTypeApplication, Name: "isr", Version: r.build.Version,
		Description: "Page cache with incremental static regeneration",
		Hashes:      &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}},
		Licenses:    &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
		Properties: &[]cdx.Property{
			{Name: "isr:platform", Value: b.platform.String()}, {Name: "isr:go", Value: b.info.GoVersion}, {Name: "isr:revision", Value: r.build.Revision},
		},
	}
	components := []cdx.Component{standardLibrary(b.info.GoVersion)}
	for _, m := range b.info.Deps {
		components = append(components, component(m, folders[m.Path]))
	}
	var refs []string
	for _, c := range components {
		refs = append(refs, c.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.SerialNumber = "urn:uuid:" + uuid.NewSHA1(uuid.NameSpaceOID, []byte(sum)).String() // the same for the same binary
	bom.Metadata = &cdx.Metadata{Timestamp: r.time.Format(time.RFC3339), Component: &program}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: program.BOMRef, Dependencies: &refs}}
	return writeFile(r.path(r.name(b.platform)+".cdx.json"), func(w io.Writer) error {
		return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
	})
}

// component describes a module, whose sources are in a folder.
func component(m *debug.Module, folder string) cdx.Component {
	if m.Replace != nil {
		m = m.Replace
	}
	url := "pkg:golang/" + m.Path + "@" + m.Version
	c := cdx.Component{
		BOMRef: url, PackageURL: url, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, Scope: cdx.ScopeRequired,
		Properties: &[]cdx.Property{{Name: "go:sum", Value: m.Sum}},
	}
	var licenses cdx.Licenses
	for _, id := range licensesIn(folder) {
		licenses = append(licenses, cdx.LicenseChoice{License: &cdx.License{ID: id}})
	}
	if len(licenses) > 0 {
		c.Licenses = &licenses
	}
	return c
}

func standardLibrary(goVersion string) cdx.Component {
	number := strings.TrimPrefix(goVersion, "go")
	url := "pkg:golang/std@" + number
	return cdx.Component{
		BOMRef: url, PackageURL: url, Type: cdx.ComponentTypeLibrary, Name: "std", Version: number, Scope: cdx.ScopeRequired,
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: "BSD-3-Clause"}}},
	}
}

// moduleFolders returns the folders with the sources of modules, which the build has fetched.
func (r *release) moduleFolders(ctx context.Context, modules []*debug.Module) (map[string]string, error) {
	args := []string{"list", "-m", "-f", "{{.Path}}\t{{.Dir}}"}
	for _, m := range modules {
		args = append(args, m.Path)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = r.source
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	var list bytes.Buffer
	if err := output(cmd, &list); err != nil {
		return nil, err
	}
	folders := make(map[string]string)
	for line := range strings.Lines(list.String()) {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), "\t")
		folders[path] = dir
	}
	return folders, nil
}

var licenseFile = regexp.MustCompile(`(?i)^(license|licence|copying)([.-].*)?$`)

// licensesIn returns the SPDX identifiers of the licenses of a module, sorted: those that make
// up three quarters of its license files.
func licensesIn(folder string) (ids []string) {
	found, err := os.ReadDir(cmp.Or(folder, "/nonexistent"))
	if err != nil {
		return nil
	}
	for _, file := range found {
		if file.IsDir() || !licenseFile.MatchString(file.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, file.Name()))
		if err != nil {
			continue
		}
		coverage := licensecheck.Scan(text)
		if coverage.Percent < 75 {
			continue
		}
		for _, match := range coverage.Match {
			if !match.IsURL {
				ids = append(ids, match.ID)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
