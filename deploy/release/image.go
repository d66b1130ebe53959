package main

import (
	"bytes"
	"encoding/pem"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	imagelayout "github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	// imageUser is the user of the image, which has no other: the one that is called nonroot
	// elsewhere.
	imageUser = 65532
	// imageFolder is the working folder of the image, and so the parent of the data folder.
	imageFolder = "var/lib/isr"
	// imageName is the name that the image has where it is loaded, before the version: one of no registry.
	imageName = "localhost/isr"
)

// image writes the container image for all Linux binaries, as an archive of an OCI image layout.
// The image has nothing but isr, CA certificates, a user, and folders to write to.
func (r *release) image() error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, b := range r.binaries {
		if b.platform.os != "linux" {
			continue
		}
		one, err := r.imageFor(b)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: one, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: b.platform.os, Architecture: b.platform.arch}},
		})
	}
	work, err := os.MkdirTemp("", "isr-image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	path, err := imagelayout.Write(work, empty.Index)
	if err != nil {
		return err
	}
	tag := imageTag(r.build.Version)
	err = path.AppendIndex(index, imagelayout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": tag,                   // of the OCI image layout: skopeo, podman
		"io.containerd.image.name":          imageName + ":" + tag, // containerd, docker
	}))
	if err != nil {
		return err
	}
	entries, err := entriesOf(work)
	if err != nil {
		return err
	}
	return writeFile(r.path("isr_"+r.build.Version+"_image.tar"), func(w io.Writer) error { return writeTar(w, entries, r.time) })
}

// imageTag returns the tag of a version: tags have no "+".
func imageTag(version string) string {
	return string(bytes.ReplaceAll([]byte(version), []byte("+"), []byte("-")))
}

// imageFor returns the image of a binary.
func (r *release) imageFor(b binary) (v1.Image, error) {
	program, err := os.ReadFile(b.path)
	if err != nil {
		return nil, err
	}
	var content bytes.Buffer
	if err := writeTar(&content, imageEntries(program), r.time); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{CreatedBy: "deploy/release", Created: v1.Time{Time: r.time}}})
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, r.imageConfig(image, b.platform))
}

// imageEntries returns the files of the image.
func imageEntries(program []byte) []entry {
	return []entry{
		{name: "etc/", mode: 0o755},
		{name: "etc/group", mode: 0o644, content: []byte("root:x:0:\nisr:x:65532:\n")},
		{name: "etc/passwd", mode: 0o644, content: []byte("root:x:0:0:root:/:/sbin/nologin\nisr:x:65532:65532:isr:/var/lib/isr:/sbin/nologin\n")},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: authorities()},
		{name: "tmp/", mode: 0o777 | 0o1000},
		{name: "usr/", mode: 0o755},
		{name: "usr/bin/", mode: 0o755},
		{name: "usr/bin/isr", mode: 0o755, content: program},
		{name: "var/", mode: 0o755},
		{name: "var/lib/", mode: 0o755},
		{name: imageFolder + "/", mode: 0o700, owner: imageUser},
	}
}

// authorities returns the certificates of the authorities that Mozilla trusts, except those
// that it trusts with constraints, which a file of certificates cannot express.
func authorities() []byte {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // to memory
		}
	}
	return text.Bytes()
}

// imageConfig returns the configuration of an image. Its health check is Docker's extension of
// the OCI format: others ignore it.
func (r *release) imageConfig(image v1.Image, p platform) *v1.ConfigFile {
	made, err := image.ConfigFile()
	if err != nil {
		panic(err) // it is in memory
	}
	config := made.DeepCopy()
	config.OS, config.Architecture, config.Created = p.os, p.arch, v1.Time{Time: r.time}
	config.Config = v1.Config{
		User:         "65532:65532",
		Entrypoint:   []string{"/usr/bin/isr"},
		Cmd:          []string{"serve"},
		Env:          []string{"PATH=/usr/bin"},
		WorkingDir:   "/" + imageFolder,
		Volumes:      map[string]struct{}{"/" + imageFolder: {}},
		ExposedPorts: map[string]struct{}{"8080/tcp": {}},
		StopSignal:   "SIGTERM",
		Healthcheck:  &v1.HealthConfig{Test: []string{"CMD", "/usr/bin/isr", "healthcheck"}, Interval: 10 * time.Second, Timeout: 5 * time.Second, StartPeriod: 30 * time.Second, Retries: 3},
		Labels: map[string]string{
			"org.opencontainers.image.title":       "isr",
			"org.opencontainers.image.description": "Page cache with incremental static regeneration",
			"org.opencontainers.image.source":      "https://github.com/facetheory/isr",
			"org.opencontainers.image.licenses":    "Apache-2.0",
			"org.opencontainers.image.version":     r.build.Version,
			"org.opencontainers.image.revision":    r.build.Revision,
			"org.opencontainers.image.created":     r.time.Format(time.RFC3339),
		},
	}
	return config
}

// entriesOf returns the files below a folder, sorted by name.
func entriesOf(dir string) (entries []entry, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			entries = append(entries, entry{name: filepath.ToSlash(name) + "/", mode: 0o755})
			return nil
		}
		text, err := os.ReadFile(path)
		entries = append(entries, entry{name: filepath.ToSlash(name), mode: 0o644, content: text})
		return err
	})
	byName(entries)
	return slices.Clip(entries), err
}
