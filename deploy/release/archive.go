package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"time"
)

// An entry is a file or, without content, a folder of an archive.
type entry struct {
	name    string // with slashes; a folder's ends in one
	mode    fs.FileMode
	owner   int // user and group
	content []byte
}

// docs are the completions and manual pages, which isr itself prints.
type docs struct {
	completions []entry // completions/isr.bash, _isr and isr.fish
	pages       []entry // man/isr.1 and so on
}

// readDocs asks the binary of this machine for its completions and manual pages.
func (r *release) readDocs(ctx context.Context, work string) (d docs, err error) {
	b, err := r.hostBinary(ctx, work)
	if err != nil {
		return d, err
	}
	for shell, name := range map[string]string{"bash": "isr.bash", "zsh": "_isr", "fish": "isr.fish"} {
		var script bytes.Buffer
		if err := output(exec.CommandContext(ctx, b.path, "completion", shell), &script); err != nil {
			return d, err
		}
		d.completions = append(d.completions, entry{name: "completions/" + name, mode: 0o644, content: script.Bytes()})
	}
	byName(d.completions)
	pages := filepath.Join(work, "man")
	if err := output(exec.CommandContext(ctx, b.path, "man", pages), nil); err != nil {
		return d, err
	}
	found, err := os.ReadDir(pages) // sorted
	if err != nil {
		return d, err
	}
	for _, page := range found {
		text, err := os.ReadFile(filepath.Join(pages, page.Name()))
		if err != nil {
			return d, err
		}
		d.pages = append(d.pages, entry{name: "man/" + page.Name(), mode: 0o644, content: text})
	}
	return d, nil
}

func byName(entries []entry) {
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
}

// archive writes the archive of a binary: isr_0.1.0_linux_amd64.tar.gz, with one folder.
func (r *release) archive(b binary) error {
	program, err := os.ReadFile(b.path)
	if err != nil {
		return err
	}
	entries := []entry{{name: "isr", mode: 0o755, content: program}}
	for _, name := range []string{"CHANGELOG.md", "LICENSE", "README.md"} {
		text, err := os.ReadFile(filepath.Join(r.source, name))
		if err != nil {
			return err
		}
		entries = append(entries, entry{name: name, mode: 0o644, content: text})
	}
	entries = slices.Concat(entries, r.docs.completions, r.docs.pages)
	for i := range entries {
		entries[i].name = path.Join(r.name(b.platform), entries[i].name)
	}
	return writeFile(r.path(r.name(b.platform)+".tar.gz"), func(w io.Writer) error {
		compressed := gzip.NewWriter(w)
		if err := writeTar(compressed, entries, r.time); err != nil {
			return err
		}
		return compressed.Close()
	})
}

// writeTar writes an archive whose bytes depend on its entries and their time only.
func writeTar(w io.Writer, entries []entry, at time.Time) error {
	archive := tar.NewWriter(w)
	for _, e := range entries {
		header := tar.Header{
			Typeflag: tar.TypeReg, Name: e.name, Mode: int64(e.mode), Size: int64(len(e.content)), Uid: e.owner, Gid: e.owner, ModTime: at, Format: tar.FormatPAX,
		}
		if e.name[len(e.name)-1] == '/' {
			header.Typeflag = tar.TypeDir
		}
		if err := archive.WriteHeader(&header); err != nil {
			return err
		}
		if _, err := archive.Write(e.content); err != nil {
			return err
		}
	}
	return archive.Close()
}

// writeFile writes a file by a function.
func writeFile(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	err = write(file)
	return cmp.Or(err, file.Close())
}
