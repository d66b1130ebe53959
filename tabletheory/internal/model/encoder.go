package model

import (
	"errors"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Bounds of a value. DynamoDB refuses deeper nesting; a longer chain of pointers
// and interfaces is taken for a cycle.
const (
	maxNesting      = 32
	maxIndirections = 100
)

var (
	errTooDeep = errors.New("nested deeper than DynamoDB's 32 levels: the value may contain itself")
	errCycle   = errors.New("a chain of more than 100 pointers: the value may point to itself")
)

// encoder is the state of one encoding. It allocates the result in few pieces:
// the attribute values of one kind in a slice, and the text of all numbers and
// times in one string.
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

	keys [keyParts]types.AttributeValue // the encoded table key
}

// pending is a string of the result that finish slices from the text.
type pending struct {
	target   *string
	from, to int
}

// needs counts the attribute values of each kind that a value certainly or
// probably needs, without those behind pointers and in elements.
type needs struct{ strings, numbers, binaries, bools, lists, maps int }

func (n *needs) add(o needs) {
	n.strings += o.strings
	n.numbers += o.numbers
	n.binaries += o.binaries
	n.bools += o.bools
	n.lists += o.lists
	n.maps += o.maps
}

// slab hands out elements of slices, which never move.
type slab[T any] struct {
	items []T
	used  int // of items; reslicing instead would cost a write barrier
	grown int
}

// take returns an unused element.
func (s *slab[T]) take() *T {
	if s.used == len(s.items) {
		s.grow()
	}
	p := &s.items[s.used]
	s.used++
	return p
}

// grow allocates more elements: few for a single value, more for one of many.
func (s *slab[T]) grow() {
	s.grown = min(2*s.grown+1, 32)
	s.items, s.used = make([]T, s.grown), 0
}

// reserve allocates the next n elements in one piece.
func (s *slab[T]) reserve(n int) {
	if len(s.items)-s.used < n {
		s.items, s.used = make([]T, n), 0
	}
}

// reset drops the elements; they are part of results.
func (s *slab[T]) reset() {
	if s.items != nil {
		*s = slab[T]{}
	}
}

// reserve allocates for n values with these needs.
func (e *encoder) reserve(o needs, n int) {
	e.strings.reserve(n * o.strings)
	e.numbers.reserve(n * o.numbers)
	e.binaries.reserve(n * o.binaries)
	e.bools.reserve(n * o.bools)
	e.lists.reserve(n * o.lists)
	e.maps.reserve(n * o.maps)
}

// setLater makes finish set target to the text appended since from.
func (e *encoder) setLater(target *string, from int) {
	e.pending = append(e.pending, pending{target: target, from: from, to: len(e.text)})
}

// finish sets the pending strings. Until then they are empty.
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

// encoder returns an encoder. The caller must release it.
func (r *Registry) encoder() *encoder { return r.encoders.Get().(*encoder) }

// maxKept bounds the size of the buffers that a released encoder keeps, in bytes
// and in entries.
const maxKept = 64 << 10

// release returns the encoder to the pool, without references to the result.
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
