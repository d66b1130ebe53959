package store

import (
	"errors"
	"fmt"
	"strconv"

	bolt "go.etcd.io/bbolt"
)

// Format is the version of the file's layout. A file of a higher one is
// refused. One of a lower one is raised when it is opened, after which programs
// that know only the lower one refuse it.
//
//   - 1 has tables, items and request tokens.
//   - 2 may have secondary indexes too. A program that does not know of them
//     would write items and leave their index entries behind, which is why the
//     number had to change. Without an index, 1 and 2 are the same.
const Format = 2

// The space and key under which the file says what it is.
const (
	formatSpace = "localdynamo"
	formatKey   = "format"
)

// format makes an empty file a store.
func format(path string) error {
	db, err := open(path, false)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bolt.Tx) error { return mark(writer{reader{tx}}) })
	return errors.Join(err, db.Close())
}

func mark(w Writer) error {
	return w.Put(formatSpace, []byte(formatKey), []byte(strconv.Itoa(Format)))
}

// adopt refuses what this program does not know, and raises what is older.
func (b *Bolt) adopt() error {
	version := 0
	err := b.View(func(r Reader) (err error) {
		version, err = formatOf(r)
		return err
	})
	if err != nil || version == Format {
		return err
	}
	// bbolt trusts its list of free pages: written to, a file in which the list
	// is wrong would lose what it still has.
	if err := b.Check(); err != nil {
		return err
	}
	// A crash before this commit leaves a file of the old format, one after it
	// a file of the new one; either has the same tables and items.
	if err := b.Update(mark); err != nil {
		return fmt.Errorf("raise the file from format %d to %d: %w", version, Format, err)
	}
	return nil
}

// formatOf returns a version that this program knows.
func formatOf(r Reader) (int, error) {
	stored := r.Get(formatSpace, []byte(formatKey))
	if stored == nil {
		return 0, fmt.Errorf("%w: a bbolt file of some other program", ErrCorrupt)
	}
	version, err := strconv.Atoi(string(stored))
	switch {
	case err != nil || version < 1:
		return 0, fmt.Errorf("%w: format version %q", ErrCorrupt, stored)
	case version > Format:
		return 0, fmt.Errorf("%w: format %d, this program knows up to %d; use the version that wrote it, or newer", ErrFormat, version, Format)
	}
	return version, nil
}
