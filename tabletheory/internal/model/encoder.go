package model

import (
	"errors"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Bounds of a value. DynamoDB refuses items that nest deeper; a chain of
// pointers and interfaces that is longer points to itself.
const (
	maxNesting      = 32
	maxIndirections = 100
)

var (
	errTooDeep = errors.New("nested deeper than DynamoDB's 32 levels: a value that contains itself?")
	errCycle   = errors.New("more than 100 pointers one within the other: a value that points to itself?")
)

// encoder is the state of one encoding. What becomes part of the result is
// allocated in few pieces: the attribute values of one kind in a slice, and the
// text of all numbers and times in one string.
type encoder struct {
	registry *Registry

	strings  slab[types.AttributeValueMemberS]
	numbers  slab[types.AttributeValueMemberN]
	binaries slab[types.AttributeValueMemberB]
	bools    slab[types.AttributeValueMemberBOOL]
	lists    slab[types.AttributeValueMemberL]
	maps     slab[types.AttributeValueMemberM]

	text    []byte
	pending []pending

	nesting, indirections int

	keys [keyParts]types.AttributeValue // of the table, that were encoded
}

// pending is a string of the result that is to be cut out of the text.
type pending struct {
	target   *string
	from, to int
}

// needs counts the attribute values of each kind that a value surely or
// probably becomes, without those of what it points to and of its elements.
type needs struct{ strings, numbers, binaries, bools, lists, maps int }

func (n *needs) add(o needs) {
	n.strings += o.strings
	n.numbers += o.numbers
	n.binaries += o.binaries
	n.bools += o.bools
	n.lists += o.lists
	n.maps += o.maps
}

// slab hands out the elements of slices, which never move.
type slab[T any] struct {
	items []T
	used  int // of items; counted, as to shorten the slice would cost a write barrier
	grown int
}

// take returns a fresh element.
func (s *slab[T]) take() *T {
	if s.used == len(s.items) {
		s.grow()
	}
	p := &s.items[s.used]
	s.used++
	return p
}

// grow makes more elements: few for a single value, more for one of many.
func (s *slab[T]) grow() {
	s.grown = min(2*s.grown+1, 32)
	s.items, s.used = make([]T, s.grown), 0
}

// reserve makes sure that the next n elements are of one piece.
func (s *slab[T]) reserve(n int) {
	if len(s.items)-s.used < n {
		s.items, s.used = make([]T, n), 0
	}
}

// reset lets go of the elements, which belong to those who took them.
func (s *slab[T]) reset() {
	if s.items != nil {
		*s = slab[T]{}
	}
}

// reserve prepares for n values with these needs.
func (e *encoder) reserve(o needs, n int) {
	e.strings.reserve(n * o.strings)
	e.numbers.reserve(n * o.numbers)
	e.binaries.reserve(n * o.binaries)
	e.bools.reserve(n * o.bools)
	e.lists.reserve(n * o.lists)
	e.maps.reserve(n * o.maps)
}

// later makes target what was appended to the text from from on.
func (e *encoder) later(target *string, from int) {
	e.pending = append(e.pending, pending{target: target, from: from, to: len(e.text)})
}

// finish gives the pending strings their text. Until then they are empty.
func (e *encoder) finish() {
	if len(e.pending) == 0 {
		return
	}
	text := string(e.text)
	for _, p := range e.pending {
		*p.target = text[p.from:p.to]
	}
}

// null returns a new NULL.
func null() types.AttributeValue { return &types.AttributeValueMemberNULL{Value: true} }

// encoder returns an encoder, to be released.
func (r *Registry) encoder() *encoder { return r.encoders.Get().(*encoder) }

// maxKept is the size, in bytes and in entries, up to which buffers are kept.
const maxKept = 64 << 10

// release gives the encoder back, without what is part of the result.
func (e *encoder) release() {
	e.strings.reset()
	e.numbers.reset()
	e.binaries.reset()
	e.bools.reset()
	e.lists.reset()
	e.maps.reset()
	clear(e.pending)
	clear(e.keys[:])
	e.text, e.pending = e.text[:0], e.pending[:0]
	if cap(e.text) > maxKept || cap(e.pending) > maxKept {
		e.text, e.pending = nil, nil
	}
	e.nesting, e.indirections = 0, 0
	e.registry.encoders.Put(e)
}
