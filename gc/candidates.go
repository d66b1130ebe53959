package gc

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"

	"github.com/facetheory/isr/store"
)

// candidates are the bodies of a listing that are old enough to be garbage, as
// digests: 16 bytes each, so that those of ten million pages fit into a process. A
// digest only says where to look closer. Two folders or two bodies that share one can
// make a page look as if it had garbage, or as if it had none; nothing is deleted for
// that.
type candidates struct {
	seed maphash.Seed
	// buckets hold the candidates by the first byte of their folder: each grows on
	// its own, and there is never a second copy of all.
	buckets [256][]candidate
	count   int
}

// A candidate is one body.
type candidate struct {
	folder uint64 // the first 16 hex digits of its folder's name
	body   uint64 // the digest of its key; the lowest bit says that a row of its page was seen
}

const seenBit = 1

func newCandidates() *candidates { return &candidates{seed: maphash.MakeSeed()} }

// folderOfBody returns the folder that a body lies in, as [store.BodyPrefix] makes them, and
// its digest.
func folderOfBody(key string) (folder string, digest uint64, ok bool) {
	const hash = 64 // hex digits
	end := len(store.BodyRoot) + hash
	if len(key) <= end+1 || key[end] != '/' || strings.Trim(key[len(store.BodyRoot):end], "0123456789abcdef") != "" {
		return "", 0, false
	}
	return key[:end+1], folderDigest(key), true
}

// folderDigest is the digest of a folder, or of that of a body.
func folderDigest(key string) uint64 {
	digest, _ := strconv.ParseUint(key[len(store.BodyRoot):len(store.BodyRoot)+16], 16, 64)
	return digest
}

func (cs *candidates) digest(key string) uint64 { return maphash.String(cs.seed, key) &^ seenBit }

func (cs *candidates) add(folder uint64, key string) {
	bucket := &cs.buckets[folder>>56]
	*bucket = append(*bucket, candidate{folder, cs.digest(key)})
	cs.count++
}

// sort ends the additions.
func (cs *candidates) sort() {
	for _, bucket := range cs.buckets {
		slices.SortFunc(bucket, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.folder, b.folder), cmp.Compare(a.body, b.body)) })
	}
}

// of are the candidates of a folder.
func (cs *candidates) of(folder uint64) []candidate {
	bucket := cs.buckets[folder>>56]
	first, _ := slices.BinarySearchFunc(bucket, folder, func(c candidate, f uint64) int { return cmp.Compare(c.folder, f) })
	last := first
	for last < len(bucket) && bucket[last].folder == folder {
		last++
	}
	return bucket[first:last]
}

// see takes notice of a page and of the bodies that its rows name. It returns how
// many candidates the page has, and how many of them seem to be named by nothing.
// There are none where the page was seen before.
func (cs *candidates) see(page store.ReferencedBodies) (all, unnamed int) {
	folder := store.BodyPrefix(page.PK)
	found := cs.of(folderDigest(folder))
	if len(found) == 0 || found[0].body&seenBit != 0 {
		return 0, 0
	}
	named := make([]uint64, 0, len(page.Keys))
	for _, name := range page.Keys {
		// Other services may name a body by a URL that ends in its key.
		if at := strings.LastIndex(name, folder); at == 0 || at > 0 && name[at-1] == '/' {
			named = append(named, cs.digest(name[at:]))
		}
	}
	slices.Sort(named)
	for i := range found {
		if _, ok := slices.BinarySearch(named, found[i].body); !ok {
			unnamed++
		}
		found[i].body |= seenBit
	}
	return len(found), unnamed
}

// orphaned says that a body is a candidate, and that no row of its page was seen.
func (cs *candidates) orphaned(folder uint64, key string) bool {
	return slices.Contains(cs.of(folder), candidate{folder, cs.digest(key)})
}

// orphans says whether there is any.
func (cs *candidates) orphans() bool {
	for _, bucket := range cs.buckets {
		if slices.ContainsFunc(bucket, func(c candidate) bool { return c.body&seenBit == 0 }) {
			return true
		}
	}
	return false
}
