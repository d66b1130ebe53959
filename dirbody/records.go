package dirbody

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"slices"
	"syscall"

	"github.com/facetheory/isr/store"
)

// A record is: a checksum of all that follows, the lengths of key and body, the key, the body.
const (
	recordHeader = 4 + 2 + 4
	// maxRecord is the length of the longest record, in bytes.
	maxRecord = recordHeader + hashEnd + 1 + maxPageName + maxJournaled
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func appendRecord(to []byte, key string, body []byte) []byte {
	at := len(to)
	to = slices.Grow(to, recordHeader+len(key)+len(body))
	to = append(to, 0, 0, 0, 0)
	to = binary.BigEndian.AppendUint16(to, uint16(len(key)))
	to = binary.BigEndian.AppendUint32(to, uint32(len(body)))
	to = append(append(to, key...), body...)
	binary.BigEndian.PutUint32(to[at:], crc32.Checksum(to[at+4:], castagnoli))
	return to
}

// A journalContent is what was read of a journal.
type journalContent struct {
	files []string // of the bodies in it
	lost  []span   // what cannot be read, in order
	torn  bool     // the last of lost is the beginning of a record at the end, as a crash leaves it
}

// isDamaged reports whether a part of the journal cannot be read that a crash does not explain.
func (c *journalContent) isDamaged() bool {
	return len(c.lost) > 1 || len(c.lost) == 1 && !c.torn
}

// A span is a part of a file.
type span struct{ at, length int64 }

// readJournal calls do with each record of a journal. The body is valid during the call. What is damaged is
// skipped up to the next record. That record may be a part of a body which looks like one, if the length of
// the damaged record is damaged: readers of bodies compare them with the digest of their entry.
func readJournal(from io.ReaderAt, do func(file string, body []byte) error) (c journalContent, err error) {
	in := bufio.NewReaderSize(&blockReader{from: from}, 2*maxRecord)
	for at := int64(0); ; {
		if rest, err := peek(in, 1); len(rest) == 0 || err != nil {
			return c, err
		}
		r, ok, err := peekRecord(in, 0)
		switch {
		case err != nil:
			return c, err
		case !ok:
			length, err := skipDamage(in, r.length)
			if err != nil {
				return c, err
			}
			c.lost = append(c.lost, span{at, length})
			c.torn = r.length == 0 // of the last one, if nothing follows
			at += length
			continue
		}
		c.torn = false
		file := fileName(r.key)
		if err := do(file, r.body); err != nil {
			return c, err
		}
		c.files = append(c.files, file)
		at += int64(r.length)
		_, _ = in.Discard(r.length) // it is in the buffer
	}
}

type record struct {
	key    string
	body   []byte // in the buffer of the reader
	length int    // of the record, as its header states it; zero if it does not fit into the file, or is too long
}

// peekRecord reads the record after some bytes, and leaves the reader where it is. ok is false if there is none.
func peekRecord(in *bufio.Reader, skip int) (r record, ok bool, err error) {
	header, err := peek(in, skip+recordHeader)
	if err != nil || len(header) < skip+recordHeader {
		return record{}, false, err
	}
	header = header[skip:]
	sum, keyLength, bodyLength := binary.BigEndian.Uint32(header), int(binary.BigEndian.Uint16(header[4:])), int64(binary.BigEndian.Uint32(header[6:]))
	if bodyLength > maxJournaled || keyLength <= hashEnd+1 || keyLength > hashEnd+1+maxPageName {
		return record{}, false, nil
	}
	length := recordHeader + keyLength + int(bodyLength)
	all, err := peek(in, skip+length)
	if err != nil || len(all) < skip+length {
		return record{}, false, err
	}
	all = all[skip:]
	r = record{key: string(all[recordHeader : recordHeader+keyLength]), body: all[recordHeader+keyLength:], length: length}
	return r, crc32.Checksum(all[4:], castagnoli) == sum && journaled(r.key, r.body), nil
}

// skipDamage skips what is no record, up to the next record or the end, and returns its length. The length that
// a record states is right in most cases, and the next record follows it. If not, each place that has the
// beginning of a key is tried.
func skipDamage(in *bufio.Reader, stated int) (skipped int64, err error) {
	if stated > 0 {
		_, ok, err := peekRecord(in, stated)
		rest, restErr := peek(in, stated+1)
		if err := errors.Join(err, restErr); err != nil {
			return 0, err
		}
		if ok || len(rest) == stated {
			n, err := in.Discard(stated)
			return int64(n), err
		}
	}
	const before = recordHeader + len(store.BodyRoot)
	for {
		rest, err := peek(in, before+1)
		if err != nil {
			return 0, err
		}
		window := rest
		if len(rest) > before {
			window, _ = in.Peek(in.Buffered())
		}
		next, found := len(window), false
		if len(window) > before {
			i := bytes.Index(window[1+recordHeader:], []byte(store.BodyRoot))
			if next, found = 1+i, i >= 0; !found {
				next = len(window) - before // the beginning of a key may follow
			}
		}
		n, err := in.Discard(next)
		skipped += int64(n)
		if err != nil || n == 0 || len(window) <= before {
			return skipped, err
		}
		if found {
			if _, ok, err := peekRecord(in, 0); ok || err != nil {
				return skipped, err
			}
		}
	}
}

// peek returns the next n bytes, or fewer at the end.
func peek(in *bufio.Reader, n int) ([]byte, error) {
	b, err := in.Peek(n)
	if err == io.EOF {
		err = nil
	}
	return b, err
}

// maxBadBlocks bounds how many blocks of a journal are skipped that the disk cannot read: the disk may take
// seconds for each.
const maxBadBlocks = 64

// A blockReader reads a file from the beginning. It reads zeros from a block that the disk cannot read: that is
// damage like any other.
type blockReader struct {
	from io.ReaderAt
	at   int64
	bad  int // blocks
}

func (r *blockReader) Read(p []byte) (int, error) {
	const block = 4 << 10
	n, err := r.from.ReadAt(p, r.at)
	if errors.Is(err, syscall.EIO) {
		if err = nil; n == 0 {
			if r.bad++; r.bad > maxBadBlocks {
				return 0, syscall.EIO
			}
			n = min(len(p), int(block-r.at%block))
			clear(p[:n])
		}
	}
	r.at += int64(n)
	return n, err
}
