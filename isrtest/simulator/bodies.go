package simulator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/facetheory/isr/store"
)

// A shelf is the in-memory body store of a world. Only the driver, which executes the
// nodes' calls, accesses it.
type shelf struct {
	bodies map[string]storedBody
	// rewritten is a key under which different content was put. Keys are used once, so
	// this is a violation.
	rewritten string
	deleted   bool            // a body was deleted since the last check
	lost      map[string]bool // keys of bodies that were deleted by mistake
}

type storedBody struct {
	content []byte
	at      time.Time
}

func newShelf() *shelf {
	return &shelf{bodies: make(map[string]storedBody), lost: make(map[string]bool)}
}

// loseBody deletes the body of a page, as an operator may by mistake.
func (w *world) loseBody(p *page) {
	g := p.current()
	if g == nil {
		return
	}
	w.log("the body of %s of %s is lost", w.generationName(g), p.path)
	w.counts["body lost"]++
	delete(w.shelf.bodies, g.bodyKey)
	w.shelf.lost[g.bodyKey] = true
}

func (s *shelf) put(key string, content []byte) error {
	if err := store.ValidBodyKey(key); err != nil {
		return err
	}
	if old, ok := s.bodies[key]; ok {
		if bytes.Equal(old.content, content) {
			return nil
		}
		s.rewritten = key
		return fmt.Errorf("%s: %w", key, store.ErrExists)
	}
	s.bodies[key] = storedBody{content: bytes.Clone(content), at: time.Now()}
	return nil
}

func (s *shelf) get(key string) (storedBody, error) {
	b, ok := s.bodies[key]
	if !ok {
		return storedBody{}, fmt.Errorf("%s: %w", key, store.ErrNotFound)
	}
	return b, nil
}

// A gatedShelf is the shelf as seen by one life of a node.
type gatedShelf struct{ life *life }

var _ store.BodyStore = (*gatedShelf)(nil)

// passBody is pass for bodies. The trace omits the key, which is random.
func passBody[T any](ctx context.Context, l *life, op string, do func(*shelf) (T, error)) (T, error) {
	c := &call{life: l, op: op, kind: body, errand: storing, aside: isAside(ctx)}
	return pass(ctx, l.w.gate, c, func() (T, error) { return do(l.w.shelf) })
}

func (g *gatedShelf) Put(ctx context.Context, key string, content []byte) error {
	content = bytes.Clone(content)
	_, err := passBody(ctx, g.life, "body put", func(s *shelf) (struct{}, error) { return struct{}{}, s.put(key, content) })
	return err
}

func (g *gatedShelf) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	if !isAside(ctx) {
		g.life.w.happened(event{kind: bodyWanted, life: g.life, page: g.life.w.pages[0], body: key})
	}
	b, err := passBody(ctx, g.life, "body open", func(s *shelf) (storedBody, error) { return s.get(key) })
	if err != nil {
		return nil, 0, err
	}
	if !isAside(ctx) {
		for _, p := range g.life.w.pages {
			g.life.w.noteReload(g.life, p) // Open may find it purged
		}
		g.life.w.happened(event{kind: bodyOpened, life: g.life, page: g.life.w.pages[0], body: key})
	}
	return io.NopCloser(bytes.NewReader(b.content)), int64(len(b.content)), nil
}

func (g *gatedShelf) Stat(ctx context.Context, key string) (store.BodyInfo, error) {
	b, err := passBody(ctx, g.life, "body stat", func(s *shelf) (storedBody, error) { return s.get(key) })
	return store.BodyInfo{Key: key, Length: int64(len(b.content)), ModifiedAt: b.at}, err
}

func (g *gatedShelf) Delete(ctx context.Context, key string) error {
	_, err := passBody(ctx, g.life, "body delete", func(s *shelf) (struct{}, error) {
		delete(s.bodies, key)
		s.deleted = true
		return struct{}{}, nil
	})
	return err
}

func (g *gatedShelf) List(ctx context.Context, prefix string) iter.Seq2[store.BodyInfo, error] {
	return func(yield func(store.BodyInfo, error) bool) {
		found, err := passBody(ctx, g.life, "body list", func(s *shelf) ([]store.BodyInfo, error) { return s.list(prefix), nil })
		if err != nil {
			yield(store.BodyInfo{}, err)
			return
		}
		for _, info := range found {
			if !yield(info, nil) {
				return
			}
		}
	}
}

func (s *shelf) list(prefix string) []store.BodyInfo {
	var found []store.BodyInfo
	for _, key := range slices.Sorted(maps.Keys(s.bodies)) {
		if b := s.bodies[key]; strings.HasPrefix(key, prefix) {
			found = append(found, store.BodyInfo{Key: key, Length: int64(len(b.content)), ModifiedAt: b.at})
		}
	}
	return found
}

// checkShelf checks the invariants of bodies after each step.
func (w *world) checkShelf() {
	if w.shelf.rewritten != "" {
		w.violate("a body is immutable", "different content was put under the key %s", w.shelf.rewritten)
	}
	if w.shelf.deleted {
		w.shelf.deleted = false
		for _, p := range w.pages {
			if g := p.current(); g != nil {
				w.checkWhole(p, g)
			}
			w.checkNamed(p)
		}
	}
}

// checkWhole: META points at an existing, complete body that matches META.
func (w *world) checkWhole(p *page, g *generation) {
	const invariant = "META points at a whole body"
	b, err := w.shelf.get(g.bodyKey)
	switch {
	case err != nil && w.shelf.lost[g.bodyKey]:
		return
	case errors.Is(err, store.ErrNotFound):
		w.violate(invariant, "the body of %s of %s does not exist", w.generationName(g), p.path)
		return
	}
	if !g.ours || g.withdrawn && g.sha256 == "" {
		return // another service has published it, and states neither hash nor length
	}
	if int64(len(b.content)) != g.length || digest(b.content) != g.sha256 {
		w.violate(invariant, "the body of %s of %s has %d bytes, and META states another hash, or not the length %d", w.generationName(g), p.path, len(b.content), g.length)
	}
}
