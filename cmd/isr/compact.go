package main

import (
	"context"
	"fmt"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/backup"
	"github.com/facetheory/isr/internal/units"
)

type compactCommand struct {
	Source  string `arg:"" type:"path" help:"Data folder of isr serve or isr dynamodb, which may be running, or a file of tables."`
	Discard bool   `env:"-" help:"Leave damaged items out, and list them. Without it, damage is an error, and nothing is changed."`
}

func (c *compactCommand) Help() string {
	return `The file of the table never shrinks by itself. compact replaces it by a copy without unused space, in which
each value has a checksum. A running server keeps serving; the disk needs room for the copy. If it fails, the file is
unchanged. Pages that --discard leaves out are rendered again; a discarded purge is lost, so restore a backup instead if
there is one (isr restore).`
}

func (c *compactCommand) Run(ctx context.Context, s *cli.Streams) error {
	var done []string
	show, end := progressBar(s, "compacting", units.Bytes)
	err := keeping{
		online: func(client *backup.Client) (err error) {
			done, err = client.Compact(ctx, c.Discard, show)
			return err
		},
		offline: func(source backup.Source) (err error) {
			done, err = source.Compact(ctx, c.Discard, show)
			return err
		},
	}.on(ctx, c.Source)
	end()
	for _, text := range done {
		if _, err := fmt.Fprintln(s.Out, text); err != nil {
			return err
		}
	}
	return err
}
