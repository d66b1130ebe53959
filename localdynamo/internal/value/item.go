package value

import (
	"encoding/binary"
	"errors"
	"slices"
	"unsafe"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Item is an encoded item:
//
//	size  count  { name  tag  [length payload] }…
//
// Integers are base-128 varints. Names are in byte order, so that equal items have
// equal encodings. Every payload is preceded by its length, so that Lookup skips
// attributes without decoding them. Strings and numbers are stored as text, so that
// Decode copies an item once and slices strings out of the copy.
type Item string

// ErrMalformed is returned for stored bytes that are not a valid item.
var ErrMalformed = errors.New("malformed stored item")

// Type tags. They are part of the file format.
const (
	tagS     = 'S'
	tagN     = 'N'
	tagB     = 'B'
	tagTrue  = 't'
	tagFalse = 'f'
	tagNull  = '0'
	tagL     = 'L'
	tagM     = 'M'
	tagSS    = 's'
	tagNS    = 'n'
	tagBS    = 'b'
)

// View returns stored as an Item without copying. It is valid as long as stored
// is. Values decoded from it share its memory, except binaries.
func View(stored []byte) Item {
	return Item(unsafe.String(unsafe.SliceData(stored), len(stored)))
}

// Encode appends the encoding of a canonical item to dst.
func Encode(dst []byte, item map[string]types.AttributeValue) []byte {
	dst = binary.AppendUvarint(dst, uint64(ItemSize(item)))
	return appendMembers(dst, item)
}

func appendMembers(dst []byte, m map[string]types.AttributeValue) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(m)))
	var few [32]string
	names := few[:0]
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		dst = appendText(dst, name)
		dst = appendValue(dst, m[name])
	}
	return dst
}

func appendText(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

func appendValue(dst []byte, v types.AttributeValue) []byte {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return appendText(append(dst, tagS), v.Value)
	case *types.AttributeValueMemberN:
		return appendText(append(dst, tagN), v.Value)
	case *types.AttributeValueMemberB:
		dst = binary.AppendUvarint(append(dst, tagB), uint64(len(v.Value)))
		return append(dst, v.Value...)
	case *types.AttributeValueMemberBOOL:
		if v.Value {
			return append(dst, tagTrue)
		}
		return append(dst, tagFalse)
	case *types.AttributeValueMemberL:
		return appendContainer(dst, tagL, func(dst []byte) []byte {
			dst = binary.AppendUvarint(dst, uint64(len(v.Value)))
			for _, e := range v.Value {
				dst = appendValue(dst, e)
			}
			return dst
		})
	case *types.AttributeValueMemberM:
		return appendContainer(dst, tagM, func(dst []byte) []byte { return appendMembers(dst, v.Value) })
	case *types.AttributeValueMemberSS:
		return appendContainer(dst, tagSS, func(dst []byte) []byte { return appendTexts(dst, v.Value) })
	case *types.AttributeValueMemberNS:
		return appendContainer(dst, tagNS, func(dst []byte) []byte { return appendTexts(dst, v.Value) })
	case *types.AttributeValueMemberBS:
		return appendContainer(dst, tagBS, func(dst []byte) []byte { return appendTexts(dst, binaryMembers(v.Value)) })
	}
	return append(dst, tagNull)
}

func appendTexts(dst []byte, texts []string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(texts)))
	for _, s := range texts {
		dst = appendText(dst, s)
	}
	return dst
}

// appendContainer writes the payload and then inserts its length in front of it.
// Nesting is bounded, so a byte moves at most 31 times.
func appendContainer(dst []byte, tag byte, payload func([]byte) []byte) []byte {
	dst = append(dst, tag)
	start := len(dst)
	dst = payload(dst)
	var length [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(length[:], uint64(len(dst)-start))
	return slices.Insert(dst, start, length[:n]...)
}

// Size returns ItemSize of the item, or 0 if it is malformed.
func (it Item) Size() int {
	r := reader{s: string(it)}
	return r.uvarint()
}

// Decode decodes the item. The values share its memory.
func (it Item) Decode() (map[string]types.AttributeValue, error) {
	r := reader{s: string(it)}
	r.uvarint()
	m := r.members(1)
	if r.bad || r.s != "" {
		return nil, ErrMalformed
	}
	return m, nil
}

// Lookup returns the named attribute, or nil if the item does not have it.
func (it Item) Lookup(name string) (types.AttributeValue, error) {
	r := reader{s: string(it)}
	r.uvarint()
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		found := r.text()
		if found == name {
			v := r.value(1)
			if r.bad {
				return nil, ErrMalformed
			}
			return v, nil
		}
		if found > name {
			break // names are sorted
		}
		r.skip()
	}
	if r.bad {
		return nil, ErrMalformed
	}
	return nil, nil
}

// reader decodes an item. After an error bad is set and every read returns a zero
// value.
type reader struct {
	s   string
	bad bool
}

func (r *reader) fail() {
	r.s, r.bad = "", true
}

func (r *reader) byte() byte {
	if r.s == "" {
		r.fail()
		return 0
	}
	b := r.s[0]
	r.s = r.s[1:]
	return b
}

func (r *reader) uvarint() int {
	n := 0
	for shift := 0; shift < 35; shift += 7 {
		b := r.byte()
		n |= int(b&0x7f) << shift
		if b < 0x80 {
			return n
		}
	}
	r.fail()
	return 0
}

// count reads a count of elements of at least one byte each. It rejects counts
// larger than the remaining input, so that a corrupt count cannot cause a large
// allocation.
func (r *reader) count() int {
	n := r.uvarint()
	if n > len(r.s) {
		r.fail()
		return 0
	}
	return n
}

func (r *reader) text() string {
	n := r.count()
	s := r.s[:n]
	r.s = r.s[n:]
	return s
}

// skip skips one value.
func (r *reader) skip() {
	switch r.byte() {
	case tagTrue, tagFalse, tagNull:
	default:
		r.text()
	}
}

func (r *reader) members(depth int) map[string]types.AttributeValue {
	n := r.count()
	m := make(map[string]types.AttributeValue, n)
	for range n {
		name := r.text()
		m[name] = r.value(depth)
	}
	return m
}

func (r *reader) value(depth int) types.AttributeValue {
	tag := r.byte()
	switch tag {
	case tagTrue, tagFalse:
		return &types.AttributeValueMemberBOOL{Value: tag == tagTrue}
	case tagNull:
		return &types.AttributeValueMemberNULL{Value: true}
	}
	payload := r.text()
	switch tag {
	case tagS:
		return &types.AttributeValueMemberS{Value: payload}
	case tagN:
		return &types.AttributeValueMemberN{Value: payload}
	case tagB:
		return &types.AttributeValueMemberB{Value: []byte(payload)}
	}
	if depth >= MaxDepth {
		r.fail()
		return nil
	}
	inner := reader{s: payload, bad: r.bad}
	v := inner.container(tag, depth+1)
	if inner.bad || inner.s != "" {
		r.fail()
	}
	return v
}

func (r *reader) container(tag byte, depth int) types.AttributeValue {
	switch tag {
	case tagM:
		return &types.AttributeValueMemberM{Value: r.members(depth)}
	case tagL:
		list := make([]types.AttributeValue, r.count())
		for i := range list {
			list[i] = r.value(depth)
		}
		return &types.AttributeValueMemberL{Value: list}
	case tagSS:
		return &types.AttributeValueMemberSS{Value: r.texts()}
	case tagNS:
		set := r.texts()
		if !slices.IsSortedFunc(set, CompareNumbers) {
			slices.SortFunc(set, CompareNumbers) // older files sort number sets as text
		}
		return &types.AttributeValueMemberNS{Value: set}
	case tagBS:
		texts := r.texts()
		set := make([][]byte, len(texts))
		for i := range set {
			set[i] = []byte(texts[i])
		}
		return &types.AttributeValueMemberBS{Value: set}
	}
	r.fail()
	return nil
}

func (r *reader) texts() []string {
	texts := make([]string, r.count())
	for i := range texts {
		texts[i] = r.text()
	}
	return texts
}
