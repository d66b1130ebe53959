package coding

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/facetheory/isr/internal/httpcache"
)

// A Set has the codings of one body; nil for those that it has not.
//
// Its stored form, beside the body:
//
//	magic | 3 lengths of 4 bytes, big endian | 3 sums of 16 bytes | br | zstd | gzip
//
// A coding that does not exist has the length 0. A sum begins the SHA-256 of the digest of the
// plain body, the token, a zero byte and the coded body. So it belongs to this body, and a part
// of a file, or another body's, is not taken for it.
type Set [httpcache.Identity][]byte

const (
	magic     = "isr codings 1\n"
	sumLength = 16
	headLen   = len(magic) + int(httpcache.Identity)*(4+sumLength)
)

// ErrDamaged: what was read is not the codings of the body.
var ErrDamaged = errors.New("the stored codings are damaged")

// Marshal returns the stored form. digest is the SHA-256 of the plain body, in hexadecimal.
func (s *Set) Marshal(digest string) []byte {
	n := headLen
	for _, coded := range s {
		n += len(coded)
	}
	b := make([]byte, 0, n)
	b = append(b, magic...)
	for _, coded := range s {
		b = binary.BigEndian.AppendUint32(b, uint32(len(coded)))
	}
	for c, coded := range s {
		b = append(b, sum(digest, httpcache.Coding(c), coded)...)
	}
	for _, coded := range s {
		b = append(b, coded...)
	}
	return b
}

func sum(digest string, c httpcache.Coding, coded []byte) []byte {
	h := sha256.New()
	_, _ = io.WriteString(h, digest+c.String()+"\x00") // it does not fail
	_, _ = h.Write(coded)
	return h.Sum(nil)[:sumLength]
}

// Has is a set of codings, such as the codings that a stored set has.
type Has [httpcache.Identity]bool

// All returns the set of all codings.
func All() Has { return Has{true, true, true} }

// Only returns the set of one coding.
func Only(c httpcache.Coding) (has Has) {
	has[c] = true
	return has
}

// And returns the codings that are in both sets.
func (h Has) And(other Has) Has {
	for i := range h {
		h[i] = h[i] && other[i]
	}
	return h
}

// Without returns the codings of h that are not in the other set.
func (h Has) Without(other Has) Has {
	for i := range h {
		h[i] = h[i] && !other[i]
	}
	return h
}

// HeadLength is the length of the part of a stored set that [ReadLengths] reads, in bytes.
const HeadLength = int64(headLen)

// ReadLengths reads the lengths of the codings of a stored set, 0 for one that it has not, from the first
// HeadLength bytes of its stored form. length, plain and the errors are as of Read. That the codings
// belong to the body, only Read verifies.
func ReadLengths(rd io.Reader, length, plain int64) (lengths [httpcache.Identity]int64, err error) {
	_, lengths, err = readHead(rd, length, plain)
	return lengths, err
}

// readHead reads the head of a stored set, and what it says of lengths.
func readHead(rd io.Reader, length, plain int64) (head [headLen]byte, lengths [httpcache.Identity]int64, err error) {
	if err := readFull(rd, head[:]); err != nil {
		return head, lengths, err
	}
	if string(head[:len(magic)]) != magic {
		return head, lengths, fmt.Errorf("%w: they begin with %.20q", ErrDamaged, head[:])
	}
	total := int64(headLen)
	for c := range lengths {
		lengths[c] = int64(binary.BigEndian.Uint32(head[len(magic)+4*c:]))
		total += lengths[c]
		if lengths[c] >= plain {
			return head, lengths, fmt.Errorf("%w: %d bytes in %s, of a body of %d", ErrDamaged, lengths[c], httpcache.Coding(c), plain)
		}
	}
	if total != length {
		return head, lengths, fmt.Errorf("%w: %d bytes instead of %d", ErrDamaged, length, total)
	}
	return head, lengths, nil
}

// Read reads one coding of a stored set: the one that choose names, none if that is Identity.
// length is the length of the stored form, plain the length of the body, which bounds what is read; both
// in bytes. Errors of rd are returned as they are, unless they say that the set ended early.
// [ErrDamaged]: these are not the codings of the body with this digest.
func Read(rd io.Reader, length, plain int64, digest string, choose func(Has) httpcache.Coding) (Has, []byte, error) {
	head, lengths, err := readHead(rd, length, plain)
	if err != nil {
		return Has{}, nil, err
	}
	var has Has
	for c, n := range lengths {
		has[c] = n > 0
	}
	wanted := choose(has)
	if wanted >= httpcache.Identity || !has[wanted] {
		return has, nil, nil
	}
	for c := range wanted {
		if n, err := io.CopyN(io.Discard, rd, lengths[c]); err != nil {
			return Has{}, nil, ended(err, n)
		}
	}
	coded := make([]byte, lengths[wanted])
	if err := readFull(rd, coded); err != nil {
		return Has{}, nil, err
	}
	at := len(magic) + 4*len(lengths) + sumLength*int(wanted)
	if !bytes.Equal(sum(digest, wanted, coded), head[at:at+sumLength]) {
		return Has{}, nil, fmt.Errorf("%w: the sum of %s differs", ErrDamaged, wanted)
	}
	return has, coded, nil
}

func readFull(rd io.Reader, b []byte) error {
	n, err := io.ReadFull(rd, b)
	if err != nil {
		return ended(err, int64(n))
	}
	return nil
}

// ended returns the error of a read, after n bytes.
func ended(err error, n int64) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: they end after %d bytes of a part", ErrDamaged, n)
	}
	return err
}
