package localdynamo

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tidwall/btree"

	"github.com/facetheory/isr/localdynamo/internal/store"
)

// The overlay holds the volatile writes that are not in the file (see Volatile). A reader
// adds it to a snapshot of the file:
//
//	volatile write ──> live ──> adopted, when a batch writes the same item ──> the batch is committed
//	                   read with every snapshot
//	                            read with the snapshots before the batch
//
// If the batch fails, what it has adopted is live again.
type overlay struct {
	// mu is held while a write is evaluated, volatile or not, so that they have one order. It
	// is not held during a commit.
	mu sync.Mutex
	// layers is replaced under mu; readers load it without.
	layers atomic.Pointer[layers]
	// touched are the items that writes of the batch in progress have read or written: what a
	// volatile write made of them would be seen before the batch is.
	touched map[string]struct{} // guarded by mu
	// closed to volatile writes: the batch in progress changes a table definition, or the last
	// one failed.
	closed bool // guarded by mu
}

// layers are what readers add to the file. They do not change.
type layers struct {
	live    *volatileTree
	adopted *volatileTree
	version uint64 // of the file, from which on it has what is adopted
}

type volatileTree = btree.BTreeG[volatileItem]

// A volatileItem is an item that is not in the file, or, without a value, the deletion of one
// that is.
type volatileItem struct {
	space string
	key   []byte
	value []byte
}

// maxVolatile bounds the items of an overlay.
const maxVolatile = 4096

func newVolatileTree() *volatileTree {
	return btree.NewBTreeGOptions(func(a, b volatileItem) bool {
		if order := strings.Compare(a.space, b.space); order != 0 {
			return order < 0
		}
		return bytes.Compare(a.key, b.key) < 0
	}, btree.Options{NoLocks: true})
}

func (o *overlay) init() {
	o.touched = make(map[string]struct{})
	o.publish(newVolatileTree(), newVolatileTree(), 0)
}

// publish replaces the layers. Each has an address of its own, by which readers notice that
// they changed. Callers must hold mu.
func (o *overlay) publish(live, adopted *volatileTree, version uint64) {
	o.layers.Store(&layers{live: live, adopted: adopted, version: version})
}

func (o *overlay) live() *volatileTree { return o.layers.Load().live }

func (o *overlay) full() bool { return o.live().Len() >= maxVolatile }

// accepts reports whether a volatile write of an item can be evaluated now. Callers must hold
// mu.
func (o *overlay) accepts(space string, key []byte) bool {
	if o.closed || o.full() {
		return false
	}
	_, touched := o.touched[itemName(space, key)]
	return !touched
}

func itemName(space string, key []byte) string { return space + "\x00" + string(key) }

// adopt moves an item from live to the batch whose commit makes version current. It reports
// whether it was there. Callers must hold mu.
func (o *overlay) adopt(item volatileItem, version uint64) bool {
	l := o.layers.Load()
	found, ok := l.live.Get(item)
	if !ok {
		return false
	}
	live, adopted := l.live.Copy(), l.adopted.Copy()
	live.Delete(item)
	adopted.Set(found)
	o.publish(live, adopted, version)
	return true
}

// drain waits for the volatile writes that have begun.
func (o *overlay) drain() {
	o.mu.Lock()
	defer o.mu.Unlock()
}

// end ends a batch.
func (o *overlay) end(committed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.layers.Load()
	live := l.live
	if !committed && l.adopted.Len() > 0 {
		live = live.Copy()
		for _, item := range l.adopted.Items() { // live has none of them: they were touched
			live.Set(item)
		}
	}
	if l.adopted.Len() > 0 {
		o.publish(live, newVolatileTree(), 0)
	}
	clear(o.touched)
	o.closed = !committed
}

// over returns a snapshot of the file with the layers.
func (l *layers) over(r store.Reader) store.Reader {
	adopted := l.adopted.Len() > 0 && r.Version() < l.version
	if l.live.Len() == 0 && !adopted {
		return r
	}
	o := &overlaid{Reader: r, trees: []*volatileTree{l.live}}
	if adopted {
		o.trees = append(o.trees, l.adopted)
	}
	return o
}

// overlaid is a snapshot of the file with what is volatile.
type overlaid struct {
	store.Reader
	trees []*volatileTree // no item is in both
}

// Get reads what is volatile, too.
func (o *overlaid) Get(space string, key []byte) []byte {
	for _, tree := range o.trees {
		if found, ok := tree.Get(volatileItem{space: space, key: key}); ok {
			return found.value
		}
	}
	return o.Reader.Get(space, key)
}

// SkipDamaged implements store.Reader.
func (o *overlaid) SkipDamaged(report func(*store.Damage)) store.Reader {
	return &overlaid{Reader: o.Reader.SkipDamaged(report), trees: o.trees}
}

// Range reads what is volatile, too.
func (o *overlaid) Range(space string, lo, hi []byte, reverse bool, fn func(key, value []byte) bool) {
	over := o.between(space, lo, hi)
	if reverse {
		slices.Reverse(over)
	}
	goesOn := true
	emit := func(key, value []byte) bool {
		goesOn = value == nil || fn(key, value)
		return goesOn
	}
	o.Reader.Range(space, lo, hi, reverse, func(key, value []byte) bool {
		for len(over) > 0 {
			next := over[0]
			order := compareKeys(next.key, key, reverse)
			if order > 0 {
				break
			}
			over = over[1:]
			if !emit(next.key, next.value) || order == 0 {
				return goesOn
			}
		}
		return emit(key, value)
	})
	for goesOn && len(over) > 0 {
		emit(over[0].key, over[0].value)
		over = over[1:]
	}
}

// between returns the volatile items of a range, in ascending order.
func (o *overlaid) between(space string, lo, hi []byte) []volatileItem {
	var found []volatileItem
	for _, tree := range o.trees {
		tree.Ascend(volatileItem{space: space, key: lo}, func(item volatileItem) bool {
			if item.space != space || hi != nil && bytes.Compare(item.key, hi) >= 0 {
				return false
			}
			found = append(found, item)
			return true
		})
	}
	slices.SortFunc(found, func(a, b volatileItem) int { return bytes.Compare(a.key, b.key) })
	return found
}

func compareKeys(a, b []byte, reverse bool) int {
	if reverse {
		return bytes.Compare(b, a)
	}
	return bytes.Compare(a, b)
}

// snapshot runs fn on the file and the overlay as they are at one moment: the layers are from
// the moment at which the snapshot of the file was taken, if they did not change since.
func (db *DB) snapshot(fn func(store.Reader) error) error {
	const attempts = 4
	for range attempts {
		before, changed := db.overlay.layers.Load(), false
		err := db.store.View(func(r store.Reader) error {
			if changed = db.overlay.layers.Load() != before; changed {
				return nil
			}
			return fn(before.over(r))
		})
		if !changed {
			return err
		}
	}
	return db.lockedSnapshot(fn)
}

// lockedSnapshot is snapshot while writes come so fast that the layers always change.
func (db *DB) lockedSnapshot(fn func(store.Reader) error) error {
	o := &db.overlay
	o.mu.Lock()
	unlock := sync.OnceFunc(o.mu.Unlock)
	defer unlock()
	return db.store.View(func(r store.Reader) error {
		l := o.layers.Load()
		unlock()
		return fn(l.over(r))
	})
}

// settle writes the rest of the overlay when the DB is closed.
func (db *DB) settle() error {
	if db.overlay.live().Len() == 0 {
		return nil
	}
	r := &pendingWrite{apply: (*transaction).keepAll}
	if _, err := db.commit([]*pendingWrite{r}); err != nil {
		return db.internal(err)
	}
	return r.err
}
