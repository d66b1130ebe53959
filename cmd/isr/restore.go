package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/backup"
	"github.com/facetheory/isr/internal/units"
)

type restoreCommand struct {
	File string `arg:"" help:"Backup of isr backup, or - for standard input."`
	Path string `arg:"" type:"path" help:"Data folder to make: it must not exist, or be empty. For the backup of a file of tables, the file to make."`
}

func (c *restoreCommand) Help() string {
	return `Verifies the backup, and makes a folder that isr serve --data or isr dynamodb --data can use, with all that was
acknowledged before the backup began. If it succeeds, the folder is complete and on disk; if it fails, there is none.

  isr restore /backups/isr.tar ./isr-data
  zstd -d < /backups/isr.tar.zst | isr restore - ./isr-data`
}

func (c *restoreCommand) Run(ctx context.Context, s *cli.Streams) error {
	from, size, err := openBackup(c.File, s)
	if err != nil {
		return err
	}
	defer from.Close()
	show, end := progressBar(s, "restoring", units.Bytes)
	found, err := backup.Restore(ctx, from, c.Path, withTotal(show, size))
	end()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Out, "restored %s of %s to %s: %d bodies, %s\n", c.File, found.Created.Format("2006-01-02 15:04:05 MST"), c.Path, found.Bodies, units.Bytes(found.Bytes))
	return err
}

// openBackup opens a backup, and returns its size; zero if it is not known.
func openBackup(name string, s *cli.Streams) (from io.ReadCloser, size int64, err error) {
	if name == "-" {
		return io.NopCloser(s.In), 0, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// withTotal is a progress whose total is known here.
func withTotal(show backup.Progress, total int64) backup.Progress {
	if show == nil {
		return nil
	}
	return func(done, _ int64) { show(done, total) }
}
