package backup

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/facetheory/isr/store"
)

// Errors of reading a backup.
var (
	// ErrNotBackup means that a stream is no backup, or one of a newer version.
	ErrNotBackup = errors.New("not a backup that this version of isr can read")
	// ErrDamaged means that a backup is incomplete or was changed.
	ErrDamaged = errors.New("the backup is incomplete or damaged; use another one")
)

// maxObject bounds an entry of JSON.
const maxObject = 64 << 10

// A sink takes the content of a backup.
type sink interface {
	// begin is called first.
	begin(m Manifest) error
	// table and body must read all of the content, or fail.
	table(content io.Reader) error
	body(key string, content io.Reader, size int64) error
}

// A Summary is what a backup contains.
type Summary struct {
	Manifest
	Bodies, Bytes int64
}

// Verify reads a backup and verifies that it is complete and unchanged.
func Verify(ctx context.Context, r io.Reader, progress Progress) (Summary, error) {
	return read(ctx, r, discard{}, progress)
}

// discard is a sink that keeps nothing.
type discard struct{}

func (discard) begin(Manifest) error { return nil }

func (discard) table(content io.Reader) error {
	_, err := io.Copy(io.Discard, content)
	return err
}

func (discard) body(_ string, content io.Reader, _ int64) error { return discard{}.table(content) }

// A reader reads one stream.
type reader struct {
	ctx      context.Context
	tar      *tar.Reader
	sum      hash.Hash
	to       sink
	found    Summary
	tables   int
	progress Progress
}

func read(ctx context.Context, from io.Reader, to sink, progress Progress) (Summary, error) {
	r := &reader{ctx: ctx, tar: tar.NewReader(from), sum: sha256.New(), to: to, progress: progress}
	if err := r.manifest(); err != nil {
		return Summary{}, err
	}
	for {
		header, err := r.next()
		if err != nil {
			return Summary{}, err
		}
		if header.Name == endName {
			return r.found, r.end(header)
		}
		if err := r.entry(header); err != nil {
			return Summary{}, err
		}
	}
}

// next returns the header of the next entry.
func (r *reader) next() (*tar.Header, error) {
	if err := r.ctx.Err(); err != nil {
		return nil, err
	}
	header, err := r.tar.Next()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if header.Typeflag != tar.TypeReg || header.Size < 0 {
		return nil, fmt.Errorf("%w: the entry %q is no file", ErrDamaged, header.Name)
	}
	return header, nil
}

func (r *reader) manifest() error {
	header, err := r.tar.Next()
	if err != nil || header.Name != manifestName {
		return fmt.Errorf("%w: it does not begin with %s", ErrNotBackup, manifestName)
	}
	if err := r.object(header, &r.found.Manifest); err != nil {
		return err
	}
	m := r.found.Manifest
	if m.Format != format {
		return fmt.Errorf("%w: its format is %d, of isr %s; use that version or a newer one", ErrNotBackup, m.Format, m.Version)
	}
	if err := m.Folder.Check("the backup"); err != nil {
		return err
	}
	return r.to.begin(m)
}

func (r *reader) entry(header *tar.Header) error {
	sumHeader(r.sum, header.Name, header.Size)
	content := &content{reader: r, left: header.Size}
	var err error
	switch key, isBody := strings.CutPrefix(header.Name, bodyPrefix); {
	case header.Name == tableName && r.tables == 0:
		r.tables++
		err = r.to.table(content)
	case isBody && store.ValidBodyKey(key) == nil && header.Size <= maxBody:
		r.found.Bodies++
		err = r.to.body(key, content, header.Size)
	default:
		return fmt.Errorf("%w: unexpected entry %q", ErrDamaged, header.Name)
	}
	if err == nil && content.left > 0 {
		err = fmt.Errorf("%w: %d bytes of %q are missing", ErrDamaged, content.left, header.Name)
	}
	return err
}

// A content is the content of an entry. It is added to the sum as it is read.
type content struct {
	*reader
	left int64
}

func (c *content) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.tar.Read(b)
	c.sum.Write(b[:n])
	c.left -= int64(n)
	c.found.Bytes += int64(n)
	if c.progress != nil {
		c.progress(c.found.Bytes, 0)
	}
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return n, err
}

// object decodes an entry of JSON, and adds it to the sum.
func (r *reader) object(header *tar.Header, v any) error {
	sumHeader(r.sum, header.Name, header.Size)
	if header.Size > maxObject {
		return fmt.Errorf("%w: %s has %d bytes", ErrDamaged, header.Name, header.Size)
	}
	text, err := io.ReadAll(&content{reader: r, left: header.Size})
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, header.Name, err)
	}
	return nil
}

// end compares the last entry with what was read.
func (r *reader) end(header *tar.Header) error {
	sum, bytes := hex.EncodeToString(r.sum.Sum(nil)), r.found.Bytes
	var e end
	if err := r.object(header, &e); err != nil {
		return err
	}
	r.found.Bytes = bytes
	if e.SHA256 != sum || e.Bodies != r.found.Bodies || e.Bytes != bytes || r.tables != 1 {
		return fmt.Errorf("%w: its checksum does not match", ErrDamaged)
	}
	return nil
}
