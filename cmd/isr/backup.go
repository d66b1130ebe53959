package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/backup"
	"github.com/facetheory/isr/internal/localfile"
	"github.com/facetheory/isr/internal/units"
)

type backupCommand struct {
	Source string `arg:"" type:"path" help:"Data folder of isr serve or isr dynamodb, which may be running, or a file of tables."`
	File   string `arg:"" help:"File to write, which must not exist, or - for standard output."`
}

func (c *backupCommand) Help() string {
	return `Copies the table and the stored bodies as of one moment, while the server keeps serving. The file is
complete or does not exist. Restore it with isr restore, and try that before you need it. See docs/backup.md.

  isr backup ./isr-data /backups/isr.tar
  isr backup ./isr-data - | zstd > /backups/isr.tar.zst`
}

func (c *backupCommand) Run(ctx context.Context, s *cli.Streams) error {
	if c.File == "-" {
		return c.write(ctx, s, s.Out)
	}
	if _, err := os.Lstat(c.File); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("%s exists; give another file, or move it away", c.File), err)
	}
	temp, err := os.CreateTemp(filepath.Dir(c.File), "."+filepath.Base(c.File)+".part*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	err = c.write(ctx, s, temp)
	info, statErr := temp.Stat()
	if err = errors.Join(err, statErr, temp.Sync(), temp.Close()); err != nil {
		return err
	}
	// If we crash before this, only the temporary file is left; after it, the backup is complete.
	if err := os.Rename(temp.Name(), c.File); err != nil {
		return err
	}
	if err := localfile.SyncFolder(filepath.Dir(c.File)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Out, "backed up %s to %s, %s\n", c.Source, c.File, units.Bytes(info.Size()))
	return err
}

func (c *backupCommand) write(ctx context.Context, s *cli.Streams, to io.Writer) error {
	show, end := progressBar(s, "backing up", units.Bytes)
	defer end()
	return keeping{
		online:  func(client *backup.Client) error { return client.Write(ctx, to, show) },
		offline: func(source backup.Source) error { return source.Write(ctx, to, show) },
	}.on(ctx, c.Source)
}
