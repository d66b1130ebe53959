package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/facetheory/isr/internal/localfile"
	"github.com/facetheory/isr/internal/version"
	"github.com/facetheory/isr/localdynamo"
)

// Format is the version of the layout of a folder: which files it has, where bodies are, and which rows
// the table has. The engine's file has a version of its own.
//
//   - 1 is the first that the folder names. Folders without a name have the same files.
const Format = 1

// oldestFormat is the oldest format whose programs may write to a folder of Format: they find all
// that it has, and leave what they do not know. Raise it with a change that they would undo, such as
// another place for bodies.
const oldestFormat = 1

// oldestVersion is the oldest version of isr with oldestFormat, for people.
const oldestVersion = "0.1.0"

// ErrFormat means that a newer version has written the folder, and that this one may not.
var ErrFormat = errors.New("data folder was written by a newer version of isr")

// stampName is the name of the file that names the format of a folder.
const stampName = "format.json"

// maxStamp bounds the file.
const maxStamp = 4096

// A Stamp is what a folder says of its format.
type Stamp struct {
	Format int `json:"format"`
	// OldestFormat and OldestVersion are the oldest format and version of isr that may write to it.
	OldestFormat  int    `json:"oldest_format"`
	OldestVersion string `json:"oldest_version"`
	// Writer is the version of isr that has given the folder its format.
	Writer string `json:"writer"`
}

// OurStamp returns the stamp of a folder that this version writes.
func OurStamp() Stamp {
	return Stamp{Format: Format, OldestFormat: oldestFormat, OldestVersion: oldestVersion, Writer: version.Number}
}

// Check returns an error wrapping [ErrFormat] unless this version may write to the folder of the stamp.
func (s Stamp) Check(dir string) error {
	if s.OldestFormat <= Format {
		return nil
	}
	return fmt.Errorf("%w: %s has format %d, of isr %s, and this is isr %s; run isr %s or newer, or restore a backup that this version has made into another folder (isr restore); see docs/upgrade.md",
		ErrFormat, dir, s.Format, s.Writer, version.Number, s.OldestVersion)
}

// readStamp returns the stamp of a folder, and zero if it has none.
func readStamp(dir string) (s Stamp, err error) {
	path := filepath.Join(dir, stampName)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Stamp{}, nil
	}
	if err != nil {
		return Stamp{}, err
	}
	if info.Size() > maxStamp {
		return Stamp{}, fmt.Errorf("%s has %d bytes, expected at most %d; remove it if no newer isr has used the folder", path, info.Size(), maxStamp)
	}
	text, err := os.ReadFile(path)
	if err == nil {
		if err = json.Unmarshal(text, &s); err != nil || s.Format < 1 || s.OldestFormat < 1 {
			err = errors.Join(err, fmt.Errorf("%s does not name a format; remove it if no newer isr has used the folder", path))
		}
	}
	return s, err
}

// writeStamp writes the stamp of this version. A crash leaves the old stamp or the new one.
func writeStamp(dir string) error {
	text, err := json.MarshalIndent(OurStamp(), "", "  ")
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(dir, stampName+".new*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(append(text, '\n'))
	if err = errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp.Name(), filepath.Join(dir, stampName)); err != nil {
		return err
	}
	return localfile.SyncFolder(dir)
}

// OpenEngine opens the engine of an existing folder, and creates its file if there is none. It gives the folder the
// format of this version. An error wraps [ErrFormat], or is one of [localdynamo.Open]; the folder is
// unchanged then.
func OpenEngine(dir string) (*localdynamo.DB, error) {
	stamp, err := readStamp(dir)
	if err == nil {
		err = stamp.Check(dir)
	}
	if err != nil {
		return nil, err
	}
	db, err := localdynamo.Open(EngineFile(dir), localdynamo.Options{})
	if err != nil {
		return nil, err
	}
	// If we crash here, the folder has the older stamp, and is like one of this format for all that
	// may write to it.
	if stamp.Format < Format {
		if err := writeStamp(dir); err != nil {
			return nil, errors.Join(fmt.Errorf("name the format of %s: %w", dir, err), db.Close())
		}
	}
	return db, nil
}
