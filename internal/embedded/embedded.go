// Package embedded opens the store of a server that needs no other: a folder with a table and bodies.
//
//	DIR/table.db     the engine, package localdynamo
//	DIR/bodies/      the bodies, package dirbody
//	DIR/format.json  the format of the folder, and who may write to it
//
// isr serve keeps three more files there: isr.lock is held while it serves, isr.sock is for the commands (mode
// 0600), and admin.token is the token of the admin API (mode 0600). With a table in DynamoDB the folder has the
// lock and the socket alone.
//
// isr serve and the module of Caddy have the same folder, so that either can go on with the other's.
package embedded

// The files:
//
//	embedded.go  opens the folder
//	disk.go      keeps it within its bound
//	format.go    the format that it names
//	hold.go      keeps bodies while it is copied

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/facetheory/isr/dirbody"
	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/internal/pace"
	"github.com/facetheory/isr/localdynamo"
)

// Table is the name of the one table of a folder.
const Table = "isr"

// EngineFile returns the path of the engine's file in a folder.
func EngineFile(dir string) string { return filepath.Join(dir, "table.db") }

// BodiesDir returns the path of the bodies in a folder.
func BodiesDir(dir string) string { return filepath.Join(dir, "bodies") }

// Open opens the stores of a folder on its engine, which callers have opened and close, and creates the
// table if it does not exist. config is completed by what such a store needs. pacer paces scans of the
// stores; nil means no pauses. Callers must close the bodies.
func Open(ctx context.Context, dir string, db *localdynamo.DB, config dynamostore.Config, pacer *pace.Pacer, log *slog.Logger) (*dynamostore.Store, *Disk, error) {
	if err := dynamostore.CreateTable(ctx, db, Table); err != nil {
		return nil, nil, err
	}
	// The process that holds a lease ends with the engine.
	config.Leases, config.Local, config.Pace, config.Logger = db.Volatile(), true, pacer.Step, log
	config.Replace = db.Replace
	meta, err := dynamostore.New(db, Table, config)
	if err != nil {
		return nil, nil, err
	}
	opened := time.Now()
	bodies, err := dirbody.Open(BodiesDir(dir), dirbody.Options{Logger: log})
	if err != nil {
		return nil, nil, err
	}
	return meta, &Disk{Store: bodies, dir: dir, opened: opened, meta: meta, pacer: pacer, log: log}, nil
}
