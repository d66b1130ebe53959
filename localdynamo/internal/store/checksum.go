package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"unsafe"
)

// Since format 3 every stored value is preceded by two checksums (CRC-32C), one of its key and
// one of key and value:
//
//	0x01  sum of space and key  sum of space, key and value  value
//
// bbolt has no checksums of its pages. With these, a value that differs from what was written is
// found when it is read, and so is a key that differs or is in the wrong place. A key that is not
// found lies between two neighbours: their own keys must be intact, and in order. That finds
// damage to the keys in bbolt's inner pages, which would otherwise make items disappear.
//
// Formats 1 and 2 have neither checksums nor values that begin with 0x01: an item begins with its
// size, which is at least 2; a tally with twice its number of items; all others are text. A file
// that was upgraded may still have such values; each write of a value replaces one, and compacting
// the file all of them.
const (
	checked        = 0x01
	checksumHeader = 1 + 4 + 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrDamaged is wrapped by every *Damage.
var ErrDamaged = errors.New("stored value is damaged")

// A Damage is the error of a key or value that is not what was written.
type Damage struct {
	Space string
	Key   []byte // as stored; may be damaged itself
}

func (d *Damage) Error() string {
	return fmt.Sprintf("the checksum of key %x in %s does not match", d.Key, d.Space)
}

// Unwrap returns ErrDamaged and ErrCorrupt.
func (d *Damage) Unwrap() []error { return []error{ErrDamaged, ErrCorrupt} }

// Catch calls fn and returns the *Damage with which a Reader ended it, or nil.
func Catch(fn func()) (damage *Damage) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *Damage:
			damage = r
		default:
			panic(r)
		}
	}()
	fn()
	return nil
}

// keySum returns the checksum of a key.
func keySum(space string, key []byte) uint32 {
	// Without a copy: Update does not keep or modify what it reads.
	sum := crc32.Update(0, castagnoli, unsafe.Slice(unsafe.StringData(space), len(space)))
	sum = crc32.Update(sum, castagnoli, []byte{0})
	return crc32.Update(sum, castagnoli, key)
}

// seal returns a value as it is stored.
func seal(space string, key, value []byte) []byte {
	sum := keySum(space, key)
	stored := make([]byte, 0, checksumHeader+len(value))
	stored = append(stored, checked)
	stored = binary.LittleEndian.AppendUint32(stored, sum)
	stored = binary.LittleEndian.AppendUint32(stored, crc32.Update(sum, castagnoli, value))
	return append(stored, value...)
}

// unseal returns the value of a stored key. unchecked is whether values of formats 1 and 2, which
// have no checksum, are accepted. ok is false if the value or the key is damaged.
func unseal(space string, key, stored []byte, unchecked bool) (value []byte, ok bool) {
	if space == formatSpace {
		return stored, true // read by programs of all formats
	}
	isChecked := len(stored) > 0 && stored[0] == checked
	if !isChecked && unchecked {
		// Unless it is a checked value whose first byte is damaged.
		return stored, len(stored) < checksumHeader || !sumsMatch(space, key, stored)
	}
	if !isChecked || len(stored) < checksumHeader || !sumsMatch(space, key, stored) {
		return nil, false
	}
	return stored[checksumHeader:], true
}

func sumsMatch(space string, key, stored []byte) bool {
	sum := keySum(space, key)
	return binary.LittleEndian.Uint32(stored[1:]) == sum &&
		binary.LittleEndian.Uint32(stored[5:]) == crc32.Update(sum, castagnoli, stored[checksumHeader:])
}

// keyIntact reports whether a key is the one that its value was stored under. It does not read the
// whole value.
func keyIntact(space string, key, stored []byte, unchecked bool) bool {
	if space == formatSpace || unchecked && (len(stored) == 0 || stored[0] != checked) {
		return true
	}
	return len(stored) >= checksumHeader && binary.LittleEndian.Uint32(stored[1:]) == keySum(space, key)
}
