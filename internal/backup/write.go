package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/facetheory/isr/internal/embedded"
	"github.com/facetheory/isr/internal/version"
	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/store"
)

// Names of entries.
const (
	manifestName = "isr-backup.json"
	tableName    = "table.db"
	bodyPrefix   = "body/"
	endName      = "end.json"
)

// format is the version of the stream.
const format = 1

// maxBody bounds a body, which a restore holds in memory.
const maxBody = 1 << 30

// A Manifest is the first entry of a backup.
type Manifest struct {
	Format  int            `json:"format"`
	Created time.Time      `json:"created"`
	Version string         `json:"version"`         // of isr
	Folder  embedded.Stamp `json:"folder,omitzero"` // zero: one file, not a folder
	Bodies  bool           `json:"bodies"`          // the folder has bodies, or may have
}

// An end is the last entry.
type end struct {
	Bodies int64  `json:"bodies"`
	Bytes  int64  `json:"bytes"` // of all entries before
	SHA256 string `json:"sha256"`
}

// A Source is what is copied.
type Source struct {
	DB *localdynamo.DB
	// Disk has the bodies of a folder; nil for one file, or a folder of tables alone.
	Disk *embedded.Disk
	// Pages are the pages of the table, for Check; nil if there are none.
	Pages Pages
	// Idle is whether nothing else uses the source: Check then verifies the structure of the file, too.
	Idle bool
	// Folder is whether the source is a folder.
	Folder bool
}

// A Progress is called, from one goroutine, with the bytes that are done, and an estimate of all.
type Progress func(done, total int64)

// Write writes a backup. The stream is complete if the error is nil.
func (s Source) Write(ctx context.Context, w io.Writer, progress Progress) error {
	if s.Disk != nil {
		// From before the table is copied until all bodies are.
		hold, err := s.Disk.Hold(ctx)
		if err != nil {
			return err
		}
		defer hold.Release()
		ctx = hold.Context()
	}
	total, err := s.estimate(ctx)
	if err != nil {
		return err
	}
	a := &writer{ctx: ctx, sum: sha256.New(), total: total, progress: progress}
	a.tar = tar.NewWriter(w)
	err = a.write(s)
	if err != nil && ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	return nil
}

var errSized = errors.New("the size is known")

// estimate returns about how many bytes a backup has.
func (s Source) estimate(ctx context.Context) (total int64, err error) {
	err = s.DB.Snapshot(ctx, func(size int64) (io.Writer, error) {
		total = size
		return nil, errSized
	})
	if !errors.Is(err, errSized) {
		return 0, err
	}
	if s.Disk != nil {
		bodies, _ := s.Disk.Usage()
		total += bodies
	}
	return total, nil
}

// A writer writes one stream.
type writer struct {
	ctx      context.Context
	tar      *tar.Writer
	sum      hash.Hash
	created  time.Time
	end      end
	total    int64
	progress Progress
}

func (a *writer) write(s Source) error {
	a.created = time.Now().UTC().Truncate(time.Second)
	manifest := Manifest{Format: format, Created: a.created, Version: version.Number, Bodies: s.Disk != nil}
	if s.Folder {
		manifest.Folder = embedded.OurStamp()
	}
	if err := a.object(manifestName, manifest); err != nil {
		return err
	}
	if err := a.table(s); err != nil {
		return err
	}
	if s.Disk != nil {
		if err := a.bodies(s.Disk); err != nil {
			return err
		}
	}
	a.end.SHA256 = hex.EncodeToString(a.sum.Sum(nil))
	if err := a.object(endName, a.end); err != nil {
		return err
	}
	return a.tar.Close()
}

func (a *writer) table(s Source) error {
	return s.DB.Snapshot(a.ctx, func(size int64) (io.Writer, error) { return a.entry(tableName, size) })
}

func (a *writer) bodies(disk *embedded.Disk) error {
	for info, err := range disk.List(a.ctx, "") {
		if err == nil {
			err = a.body(disk, info)
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) { // deleted before the hold
			return err
		}
	}
	return nil
}

func (a *writer) body(disk *embedded.Disk, info store.BodyInfo) error {
	if info.Length > maxBody {
		return fmt.Errorf("the body %s has %d bytes, more than %d", info.Key, info.Length, int64(maxBody))
	}
	body, length, err := disk.Open(a.ctx, info.Key)
	if err != nil {
		return err
	}
	defer body.Close()
	w, err := a.entry(bodyPrefix+info.Key, length)
	if err != nil {
		return err
	}
	a.end.Bodies++
	n, err := io.Copy(w, body)
	if err == nil && n != length {
		err = fmt.Errorf("the body %s has %d bytes, expected %d", info.Key, n, length)
	}
	return err
}

// object writes an entry of JSON.
func (a *writer) object(name string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	w, err := a.entry(name, int64(len(text)))
	if err != nil {
		return err
	}
	_, err = io.Copy(w, bytes.NewReader(text))
	return err
}

// entry begins an entry, whose content goes to the returned writer.
func (a *writer) entry(name string, size int64) (io.Writer, error) {
	if err := a.ctx.Err(); err != nil {
		return nil, err
	}
	sumHeader(a.sum, name, size)
	err := a.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, ModTime: a.created, Format: tar.FormatPAX})
	return io.MultiWriter(a.tar, a.sum, (*counter)(a)), err
}

// sumHeader adds name and size of an entry to the sum of a stream.
func sumHeader(sum hash.Hash, name string, size int64) {
	fmt.Fprintf(sum, "%q %d\n", name, size)
}

// A counter counts the bytes of a stream.
type counter writer

func (c *counter) Write(b []byte) (int, error) {
	c.end.Bytes += int64(len(b))
	if c.progress != nil {
		c.progress(c.end.Bytes, max(c.total, c.end.Bytes))
	}
	return len(b), c.ctx.Err()
}
