package store

import (
	"errors"
	"fmt"
	"strconv"

	bolt "go.etcd.io/bbolt"
)

// Format is the version of the file format. Open rejects a file of a higher version
// and upgrades one of a lower version; programs that know only the lower version then
// reject the file.
//
//   - 1 has tables, items and request tokens.
//   - 2 may also have secondary indexes. A program that does not know them would
//     write items without updating the index entries, hence the new version. Without
//     an index, 1 and 2 are the same.
//   - 3 has checksums of keys and values (see checksum.go). A file that was upgraded may still
//     have values without; then it has the key uncheckedKey.
const Format = 3

// The space and key that hold the format version, and the key that exists while values without
// checksums may exist.
const (
	formatSpace  = "localdynamo"
	formatKey    = "format"
	uncheckedKey = "values without checksums"
)

// format initializes an empty file.
func format(path string) error {
	db, err := open(path, false)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bolt.Tx) error { return writeFormat(writer{reader{tx: tx, b: &Bolt{}}}) })
	return errors.Join(err, db.Close())
}

func writeFormat(w Writer) error {
	return w.Put(formatSpace, []byte(formatKey), []byte(strconv.Itoa(Format)))
}

// upgrade rejects a file of an unknown format and upgrades one of an older format.
func (b *Bolt) upgrade() error {
	version, f := 0, b.current
	err := b.View(func(r Reader) (err error) {
		version, err = formatOf(r)
		f.unchecked = version < Format || r.Get(formatSpace, []byte(uncheckedKey)) != nil
		return err
	})
	if err != nil || version == Format {
		return err
	}
	// bbolt trusts its freelist. Writing to a file whose freelist is wrong would
	// destroy live pages.
	if err := b.Check(); err != nil {
		return err
	}
	// A crash before this commit leaves the old format, a crash after it the new
	// one. The values get their checksums when they are written next.
	err = b.Update(func(w Writer) error {
		return errors.Join(w.Put(formatSpace, []byte(uncheckedKey), []byte(strconv.Itoa(version))), writeFormat(w))
	})
	if err != nil {
		return fmt.Errorf("upgrade the file from format %d to %d: %w", version, Format, err)
	}
	return nil
}

// formatOf returns the file's format version, which is at most Format.
func formatOf(r Reader) (int, error) {
	stored := r.Get(formatSpace, []byte(formatKey))
	if stored == nil {
		return 0, fmt.Errorf("%w: a bbolt file without a format version, written by another program", ErrCorrupt)
	}
	version, err := strconv.Atoi(string(stored))
	switch {
	case err != nil || version < 1:
		return 0, fmt.Errorf("%w: invalid format version %q", ErrCorrupt, stored)
	case version > Format:
		return 0, fmt.Errorf("%w: format %d, this program supports up to %d; open the file with the version that wrote it, or a newer one", ErrFormat, version, Format)
	}
	return version, nil
}
