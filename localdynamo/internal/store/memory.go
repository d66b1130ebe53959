package store

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"

	"github.com/tidwall/btree"
)

// maxKey is the maximum length of a key in bytes, the same as bbolt's.
const maxKey = 32768

// errMemoryClosed is returned only by calls that race with Close.
var errMemoryClosed = errors.New("store is closed")

// Memory is a Store in memory. Its zero value is empty and open.
//
// A published state is an immutable set of copy-on-write B-trees. Update modifies
// copies, which share unmodified nodes with the originals, and publishes them with
// one pointer swap.
type Memory struct {
	current atomic.Pointer[state] // nil before the first write
}

var _ Store = (*Memory)(nil)

// state maps each space to its tree. A space without a tree is empty.
type state struct {
	version uint64
	spaces  map[string]*tree
	closed  bool
}

type tree = btree.BTreeG[entry]

type entry struct{ key, value []byte }

func newTree() *tree {
	return btree.NewBTreeGOptions(func(a, b entry) bool { return bytes.Compare(a.key, b.key) < 0 }, btree.Options{NoLocks: true})
}

// usable returns s, an empty state before the first write, or errMemoryClosed.
func (s *state) usable() (*state, error) {
	switch {
	case s == nil:
		return &state{spaces: map[string]*tree{}}, nil
	case s.closed:
		return nil, errMemoryClosed
	}
	return s, nil
}

// View implements Store.
func (m *Memory) View(fn func(Reader) error) error {
	s, err := m.current.Load().usable()
	if err != nil {
		return err
	}
	return fn(s)
}

// Update implements Store.
func (m *Memory) Update(fn func(Writer) error) error {
	before := m.current.Load()
	s, err := before.usable()
	if err != nil {
		return err
	}
	next := &draft{state: state{version: s.version + 1, spaces: maps.Clone(s.spaces)}, copied: map[string]bool{}}
	if err := fn(next); err != nil {
		return err
	}
	if !m.current.CompareAndSwap(before, &next.state) {
		return errMemoryClosed
	}
	return nil
}

// Check implements Store. It verifies the order of keys.
func (m *Memory) Check() error {
	return m.View(func(r Reader) error {
		for name, t := range r.(*state).spaces {
			if err := checkOrder(name, t); err != nil {
				return err
			}
		}
		return nil
	})
}

func checkOrder(name string, t *tree) error {
	var last []byte
	var err error
	t.Scan(func(e entry) bool {
		if last != nil && bytes.Compare(last, e.key) >= 0 {
			err = fmt.Errorf("%w: the keys of %q are not in order", ErrCorrupt, name)
		}
		last = e.key
		return err == nil
	})
	return err
}

// Close implements Store. It discards the contents.
func (m *Memory) Close() error {
	m.current.Store(&state{closed: true})
	return nil
}

// Version implements Reader.
func (s *state) Version() uint64 { return s.version }

// SkipDamaged implements Reader. Nothing is damaged in memory.
func (s *state) SkipDamaged(func(*Damage)) Reader { return s }

// Get implements Reader.
func (s *state) Get(space string, key []byte) []byte {
	t := s.spaces[space]
	if t == nil {
		return nil
	}
	e, _ := t.Get(entry{key: key})
	return e.value
}

// Range implements Reader.
func (s *state) Range(space string, lo, hi []byte, reverse bool, fn func(key, value []byte) bool) {
	t := s.spaces[space]
	switch {
	case t == nil:
	case !reverse:
		t.Ascend(entry{key: lo}, func(e entry) bool {
			return (hi == nil || bytes.Compare(e.key, hi) < 0) && fn(e.key, e.value)
		})
	case hi == nil:
		t.Reverse(func(e entry) bool {
			return bytes.Compare(e.key, lo) >= 0 && fn(e.key, e.value)
		})
	default:
		t.Descend(entry{key: hi}, func(e entry) bool {
			if bytes.Equal(e.key, hi) {
				return true // hi is exclusive
			}
			return bytes.Compare(e.key, lo) >= 0 && fn(e.key, e.value)
		})
	}
}

// draft is the state that an Update modifies.
type draft struct {
	state
	copied map[string]bool // the spaces whose trees belong to this draft alone
}

// tree returns the tree of a space for writing, or nil if the space is empty.
func (d *draft) tree(space string) *tree {
	t := d.spaces[space]
	if t == nil || d.copied[space] {
		return t
	}
	return d.set(space, t.Copy())
}

func (d *draft) set(space string, t *tree) *tree {
	d.spaces[space], d.copied[space] = t, true
	return t
}

// Put implements Writer. It copies key and value.
func (d *draft) Put(space string, key, value []byte) error {
	if len(key) == 0 || len(key) > maxKey {
		return fmt.Errorf("key has %d bytes, must have 1 to %d", len(key), maxKey)
	}
	t := d.tree(space)
	if t == nil {
		t = d.set(space, newTree())
	}
	own := make([]byte, len(key)+len(value))
	n := copy(own, key)
	copy(own[n:], value)
	t.Set(entry{key: own[:n:n], value: own[n:]})
	return nil
}

// Delete implements Writer.
func (d *draft) Delete(space string, key []byte) error {
	if t := d.tree(space); t != nil {
		t.Delete(entry{key: key})
	}
	return nil
}

// Drop implements Writer.
func (d *draft) Drop(space string) error {
	delete(d.spaces, space)
	delete(d.copied, space)
	return nil
}
