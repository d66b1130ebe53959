package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sort"
	"unsafe"

	bolt "go.etcd.io/bbolt"
)

// Layout of bbolt's pages (its file format version 2).
const (
	pageHeader   = 16 // id, flags, count, overflow
	elementSize  = 16
	branchPage   = 0x01
	leafPage     = 0x02
	maxTreeDepth = 64
)

// pages are the pages of a transaction as the file has them, without what the transaction has written.
type pages struct {
	file     []byte // as it is mapped, valid as long as the transaction
	pageSize uint64
}

func pagesOf(tx *bolt.Tx) pages {
	info := tx.DB().Info()
	mapped := *(*unsafe.Pointer)(unsafe.Pointer(&info.Data))
	return pages{file: unsafe.Slice((*byte)(mapped), tx.Size()), pageSize: uint64(info.PageSize)}
}

// A page is one that lies within the file, and so do its elements.
type page struct {
	bytes  []byte
	count  int
	branch bool
}

var errPage = errors.New("a page refers to something outside of it")

func (p pages) page(id uint64) (page, error) {
	damaged := fmt.Errorf("%w: page %d: %w", ErrCorrupt, id, errPage)
	if id < 2 || id >= uint64(len(p.file))/p.pageSize {
		return page{}, damaged
	}
	all := p.file[id*p.pageSize:]
	flags, count := binary.LittleEndian.Uint16(all[8:]), uint64(binary.LittleEndian.Uint16(all[10:]))
	length := (1 + uint64(binary.LittleEndian.Uint32(all[12:]))) * p.pageSize
	if flags != branchPage && flags != leafPage || length > uint64(len(all)) || pageHeader+count*elementSize > length {
		return page{}, damaged
	}
	return page{bytes: all[:length], count: int(count), branch: flags == branchPage}, nil
}

// element returns the key of an element and, on a branch page, the page below it.
func (p page) element(i int) (key []byte, child uint64, err error) {
	at := uint64(pageHeader + i*elementSize)
	element := p.bytes[at:]
	field := func(offset int) uint64 { return uint64(binary.LittleEndian.Uint32(element[offset:])) }
	position, keyLength, valueLength := field(0), field(4), uint64(0)
	if p.branch {
		child = binary.LittleEndian.Uint64(element[8:])
	} else {
		position, keyLength, valueLength = field(4), field(8), field(12)
	}
	if at+position+keyLength+valueLength > uint64(len(p.bytes)) {
		return nil, 0, fmt.Errorf("%w: %w", ErrCorrupt, errPage)
	}
	return p.bytes[at+position:][:keyLength], child, nil
}

// checkPages checks that all pages in use, and their elements, lie within the file. bbolt's own check
// reads what they refer to in its own goroutine, where a memory fault cannot be recovered.
func checkPages(tx *bolt.Tx) error {
	p, seen := pagesOf(tx), make(map[uint64]bool)
	if err := p.walk(uint64(tx.Cursor().Bucket().RootPage()), seen, 0); err != nil {
		return err
	}
	return tx.ForEach(func(name []byte, bucket *bolt.Bucket) error {
		root := uint64(bucket.RootPage())
		if root == 0 {
			return nil // within its parent's page
		}
		if err := p.walk(root, seen, 0); err != nil {
			return fmt.Errorf("%w in %q", err, name)
		}
		return nil
	})
}

// walk checks a page and those below it.
func (p pages) walk(id uint64, seen map[uint64]bool, depth int) error {
	if seen[id] || depth > maxTreeDepth {
		return fmt.Errorf("%w: page %d is used twice", ErrCorrupt, id)
	}
	seen[id] = true
	at, err := p.page(id)
	for i := 0; err == nil && i < at.count; i++ {
		var child uint64
		if _, child, err = at.element(i); err == nil && at.branch {
			err = p.walk(child, seen, depth+1)
		}
	}
	return err
}

// checkPath checks the branch pages by which bbolt finds a key, or with last the end of the bucket: each
// key in a branch page is the first of the page below it, as bbolt keeps it. Otherwise an existing key
// would not be found. It panics as a Reader does.
func (r reader) checkPath(space string, bucket *bolt.Bucket, key []byte, last bool) {
	id := uint64(bucket.RootPage())
	if id == 0 {
		return // within its parent's page, or new in this transaction
	}
	p := pagesOf(r.tx)
	at, err := p.page(id)
	for depth := 0; err == nil && at.branch; depth++ {
		var first, separator []byte
		separator, id, err = at.find(key, last)
		if err == nil {
			at, err = p.page(id)
		}
		if err == nil && at.count > 0 {
			first, _, err = at.element(0)
		}
		if err == nil && (!bytes.Equal(first, separator) || depth > maxTreeDepth) {
			err = errOrder(space)
		}
	}
	if err != nil {
		panic(err)
	}
}

// find returns the last element of a branch page whose key is not above key, or the first one.
func (p page) find(key []byte, last bool) (separator []byte, child uint64, err error) {
	above := p.count
	if !last {
		above = sort.Search(p.count, func(i int) bool {
			k, _, failed := p.element(i)
			if failed != nil {
				err = failed
			}
			return bytes.Compare(k, key) > 0
		})
	}
	if err != nil || p.count == 0 {
		return nil, 0, errors.Join(err, ErrCorrupt)
	}
	return p.element(max(above-1, 0))
}
