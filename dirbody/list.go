package dirbody

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"strings"

	"github.com/facetheory/isr/internal/localfile"
	"github.com/facetheory/isr/store"
)

// listBatch is the number of names per read of a folder.
const listBatch = 256

// List yields the bodies whose keys begin with prefix, which may end within an element.
// See [store.BodyStore]. It reads only folders that can hold such keys. A body that is
// put or deleted during the listing may or may not be listed. Foreign files are
// skipped.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[store.BodyInfo, error] {
	return func(yield func(store.BodyInfo, error) bool) {
		start, startKey := ".", ""
		if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
			if store.ValidBodyKey(prefix[:i]) != nil {
				return // no key has this prefix
			}
			start, startKey = folderName(prefix[:i]), prefix[:i+1]
		}
		l := lister{store: s, ctx: ctx, prefix: prefix, yield: yield}
		more, err := l.walk(start, startKey)
		if more && err == nil && len(startKey) > hashEnd && isPageHash(startKey[:hashEnd]) {
			fan := startKey[:len(store.BodyRoot)+fanOut] // start is where earlier versions stored the bodies
			_, err = l.walk(fan, fan+"/")
		}
		if err != nil {
			yield(store.BodyInfo{}, fmt.Errorf("dirbody: list bodies %q in %s: %w", prefix, s.dir, contract(err)))
		}
	}
}

// A lister is one iteration of a List.
type lister struct {
	store  *Store
	ctx    context.Context
	prefix string
	yield  func(store.BodyInfo, error) bool
}

// walk lists the folder name, whose keys begin with key. It reports whether the
// consumer wants more.
//
// It reads names only: ReadDir of a file that [os.Root] has opened also calls lstat for each
// name, of which only the metadata of bodies that match is needed.
func (l *lister) walk(name, key string) (more bool, err error) {
	f, err := l.store.folder.OpenFile(name, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil // never created, or removed by a Delete
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	for {
		if err := l.ctx.Err(); err != nil {
			return false, err
		}
		names, readErr := f.Readdirnames(listBatch)
		for _, entry := range names {
			if more, err := l.visit(f, path.Join(name, entry), key); !more || err != nil {
				return more, err
			}
		}
		if readErr == io.EOF || errors.Is(readErr, fs.ErrNotExist) {
			return true, nil // the end, or a Delete has removed the folder
		}
		if readErr != nil {
			return false, readErr
		}
	}
}

// visit lists one name in a folder: a body, or a folder with more of them.
func (l *lister) visit(in localfile.File, name, key string) (more bool, err error) {
	if page, ok := pageKey(name); ok {
		if strings.HasPrefix(page, l.prefix) && store.ValidBodyKey(page) == nil {
			return l.yieldBody(in, name, page)
		}
		return true, nil
	}
	part, kind := parseName(path.Base(name))
	key += part
	switch kind {
	case folder:
		key += "/"
		fallthrough
	case chunk:
		if l.mayHold(key) || isFanOut(name) && l.mayHold(name) {
			return l.walk(name, key)
		}
	case body:
		if strings.HasPrefix(key, l.prefix) && store.ValidBodyKey(key) == nil {
			return l.yieldBody(in, name, key)
		}
	case foreign:
	}
	return true, nil
}

// mayHold reports whether keys that begin with start may begin with the prefix of the list.
func (l *lister) mayHold(start string) bool {
	return strings.HasPrefix(start, l.prefix) || strings.HasPrefix(l.prefix, start)
}

func (l *lister) yieldBody(in localfile.File, name, key string) (more bool, err error) {
	info, err := l.store.folder.LstatIn(in, name)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil // deleted after the folder was read
	}
	if err != nil {
		return false, err
	}
	if !info.Regular {
		return true, nil
	}
	return l.yield(store.BodyInfo{Key: key, Length: info.Length, ModifiedAt: info.Modified}, nil), nil
}
