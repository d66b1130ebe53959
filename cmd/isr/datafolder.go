package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/facetheory/isr/cmd/isr/server"
	"github.com/facetheory/isr/internal/backup"
	"github.com/facetheory/isr/internal/embedded"
	"github.com/facetheory/isr/localdynamo"
)

// A keeping does the work of a command on a data folder or a file of tables: by the process that has it open, else
// in this process.
type keeping struct {
	online  func(*backup.Client) error
	offline func(backup.Source) error
}

// on does the work on what is at path.
func (k keeping) on(ctx context.Context, path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no %s; give the data folder of isr serve or isr dynamodb, or a file of tables", path)
	case err != nil:
		return err
	case !info.IsDir():
		return k.onFile(path)
	}
	if _, err := os.Stat(embedded.EngineFile(path)); err != nil {
		return fmt.Errorf("no store in %s; give the data folder of isr serve or isr dynamodb: %w", path, err)
	}
	if transport := server.DialSocket(ctx, path); transport != nil {
		return k.online(backup.NewClient(transport))
	}
	return k.onFolder(ctx, path)
}

func (k keeping) onFile(path string) (err error) {
	db, err := localdynamo.Open(path, localdynamo.Options{SweepInterval: -1})
	if errors.Is(err, localdynamo.ErrLocked) {
		return fmt.Errorf("%w; give the data folder of isr serve or isr dynamodb, or call (*localdynamo.DB).Snapshot in the program that uses the file", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return k.offline(backup.Source{DB: db, Idle: true})
}

// onFolder claims a folder that no process has open.
func (k keeping) onFolder(ctx context.Context, path string) (err error) {
	folder, err := server.Claim(path)
	if err != nil {
		return err
	}
	defer folder.Release()
	db, err := server.OpenEngine(path)
	if err != nil {
		return err
	}
	if _, err := os.Stat(embedded.BodiesDir(path)); errors.Is(err, fs.ErrNotExist) {
		return errors.Join(k.offline(backup.Source{DB: db, Folder: true, Idle: true}), db.Close())
	}
	st, err := server.NewEmbedded(ctx, &server.StoreFlags{Data: path}, db, slog.New(slog.DiscardHandler))
	if err != nil {
		return errors.Join(err, db.Close())
	}
	source := server.SourceOf(st)
	source.Idle = true
	return errors.Join(k.offline(source), st.Close())
}
