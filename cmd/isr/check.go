package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/backup"
	"github.com/facetheory/isr/internal/units"
)

type checkCommand struct {
	Source string `arg:"" type:"path" help:"Data folder of isr serve or isr dynamodb, which may be running, a file of tables, or a backup."`
}

func (c *checkCommand) Help() string {
	return `Reads all that is stored and verifies it: checksums and invariants of the table, and the body of each page's
current generation; of a backup, that it is complete and unchanged. It changes nothing. Exits with 0 if all is well,
and 1 otherwise.`
}

func (c *checkCommand) Run(ctx context.Context, s *cli.Streams) error {
	if isBackup(c.Source) {
		return c.checkBackup(ctx, s)
	}
	var faults []string
	show, end := progressBar(s, "checking", numberText)
	err := keeping{
		online: func(client *backup.Client) (err error) {
			faults, err = client.Check(ctx, show)
			return err
		},
		offline: func(source backup.Source) (err error) {
			faults, err = source.Check(ctx, show)
			return err
		},
	}.on(ctx, c.Source)
	end()
	if err != nil {
		return err
	}
	for _, fault := range faults {
		if _, err := fmt.Fprintln(s.Out, fault); err != nil {
			return err
		}
	}
	if len(faults) > 0 {
		return fmt.Errorf("%s is damaged; check the disk, and restore the newest backup (isr restore, docs/backup.md)", c.Source)
	}
	_, err = fmt.Fprintf(s.Out, "%s is intact\n", c.Source)
	return err
}

func (c *checkCommand) checkBackup(ctx context.Context, s *cli.Streams) error {
	from, size, err := openBackup(c.Source, s)
	if err != nil {
		return err
	}
	defer from.Close()
	show, end := progressBar(s, "checking", units.Bytes)
	found, err := backup.Verify(ctx, from, withTotal(show, size))
	end()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Out, "%s is a complete backup of %s: %d bodies, %s\n", filepath.Base(c.Source), found.Created.Format("2006-01-02 15:04:05 MST"), found.Bodies, units.Bytes(found.Bytes))
	return err
}

// isBackup reports whether a file begins like a tar file.
func isBackup(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	const magic, magicAt = "ustar", 257
	found := make([]byte, len(magic))
	_, err = f.ReadAt(found, magicAt)
	return (err == nil || err == io.EOF) && string(found) == magic
}
