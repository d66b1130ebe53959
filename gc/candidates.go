package gc

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"

	"github.com/facetheory/isr/store"
)

// candidates are the bodies of a listing that are old enough to be garbage, as digests of
// 16 bytes, so that the bodies of ten million pages fit into memory. A digest only selects
// pages to check. If two folders or bodies collide, a page may seem to have garbage, or to
// have none; nothing is deleted for that reason.
type candidates struct {
	seed maphash.Seed
	// buckets hold the candidates by the first byte of their folder (see bucketOf). Each grows
	// on its own, so that growing never copies all candidates.
	buckets [256][]candidate
	count   int
}

// A candidate is one body.
type candidate struct {
	folder uint64 // the first 16 hex digits of its folder's name
	body   uint64 // the digest of its key, and in the lowest bits what the scan has found
}

// The lowest bits of a digest.
const (
	seenBit       = 1 // a row of its page was seen
	referencedBit = 2 // and one of them seems to refer to the body
	foundBits     = seenBit | referencedBit
)

func newCandidates() *candidates { return &candidates{seed: maphash.MakeSeed()} }

// folderOfBody returns the folder of a body, as [store.BodyPrefix] makes it, and its
// digest. It is false for keys of another form.
func folderOfBody(key string) (folder string, digest uint64, ok bool) {
	const hash = 64 // hex digits
	end := len(store.BodyRoot) + hash
	if len(key) <= end+1 || key[end] != '/' || strings.Trim(key[len(store.BodyRoot):end], "0123456789abcdef") != "" {
		return "", 0, false
	}
	return key[:end+1], folderDigest(key), true
}

// folderDigest returns the digest of a folder, or of the folder of a body.
func folderDigest(key string) uint64 {
	digest, _ := strconv.ParseUint(key[len(store.BodyRoot):len(store.BodyRoot)+16], 16, 64)
	return digest
}

// bucketOf returns the first byte of a folder, whose two hex digits begin the names of all
// folders of a bucket.
func bucketOf(folder uint64) int { return int(folder >> 56) }

// bucketPrefix returns the beginning of the keys of all bodies in a bucket.
func bucketPrefix(bucket int) string { return fmt.Sprintf("%s%02x", store.BodyRoot, bucket) }

// digest returns the digest of a body's key. The codings of a body have the digest of the body: they
// are garbage together.
func (cs *candidates) digest(key string) uint64 {
	body, _ := store.CodedBody(key)
	return maphash.String(cs.seed, body) &^ foundBits
}

func (cs *candidates) add(folder uint64, key string) {
	bucket := &cs.buckets[bucketOf(folder)]
	*bucket = append(*bucket, candidate{folder, cs.digest(key)})
	cs.count++
}

// sort must be called after the last add, before any look-up.
func (cs *candidates) sort() {
	for _, bucket := range cs.buckets {
		slices.SortFunc(bucket, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.folder, b.folder), cmp.Compare(a.body, b.body)) })
	}
}

// of returns the candidates in a folder.
func (cs *candidates) of(folder uint64) []candidate {
	bucket := cs.buckets[bucketOf(folder)]
	first, _ := slices.BinarySearchFunc(bucket, folder, func(c candidate, f uint64) int { return cmp.Compare(c.folder, f) })
	last := first
	for last < len(bucket) && bucket[last].folder == folder {
		last++
	}
	return bucket[first:last]
}

// see marks the candidates of a page as having a row. It returns how many there are, and
// how many of them no row seems to refer to; 0 and 0 if the page was seen before.
func (cs *candidates) see(page store.ReferencedBodies) (all, unreferenced int) {
	folder := store.BodyPrefix(page.PK)
	found := cs.of(folderDigest(folder))
	if len(found) == 0 || found[0].body&seenBit != 0 {
		return 0, 0
	}
	referenced := make([]uint64, 0, len(page.Keys))
	for _, key := range page.Keys {
		// Other services may refer to a body by a URL that ends in its key.
		if at := strings.LastIndex(key, folder); at == 0 || at > 0 && key[at-1] == '/' {
			referenced = append(referenced, cs.digest(key[at:]))
		}
	}
	slices.Sort(referenced)
	for i := range found {
		if _, ok := slices.BinarySearch(referenced, found[i].body); ok {
			found[i].body |= referencedBit
		} else {
			unreferenced++
		}
		found[i].body |= seenBit
	}
	return len(found), unreferenced
}

// What the scan has found of a listed body.
type finding int

const (
	needless finding = iota // no candidate, or a row seems to refer to it
	garbage                 // its page has rows, none of which seems to refer to it
	orphaned                // its page has no row
)

// look returns what the scan has found of a body in a folder.
func (cs *candidates) look(folder uint64, key string) finding {
	digest := cs.digest(key)
	for _, c := range cs.of(folder) {
		switch c.body {
		case digest:
			return orphaned
		case digest | seenBit:
			return garbage
		}
	}
	return needless
}

// orphans reports whether a bucket has candidates of pages without rows.
func (cs *candidates) orphans(bucket int) bool {
	return slices.ContainsFunc(cs.buckets[bucket], func(c candidate) bool { return c.body&seenBit == 0 })
}
