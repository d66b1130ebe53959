package assess

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/facetheory/isr/store"
)

// bodies is a store of bodies in memory, for the short bodies of a forecast. Its methods are safe for concurrent
// use.
type bodies struct {
	mu    sync.Mutex
	byKey map[string]body // guarded by mu
}

// A body does not change.
type body struct {
	content []byte
	at      time.Time
}

var _ store.BodyStore = (*bodies)(nil)

func (b body) info(key string) store.BodyInfo {
	return store.BodyInfo{Key: key, Length: int64(len(b.content)), ModifiedAt: b.at}
}

func newBodies() *bodies { return &bodies{byKey: make(map[string]body)} }

// Put implements [store.BodyStore].
func (b *bodies) Put(ctx context.Context, key string, content []byte) error {
	if err := valid(ctx, key); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if old, ok := b.byKey[key]; ok && !bytes.Equal(old.content, content) {
		return fmt.Errorf("%s: %w", key, store.ErrExists)
	}
	b.byKey[key] = body{bytes.Clone(content), time.Now()}
	return nil
}

func valid(ctx context.Context, key string) error {
	if err := store.ValidBodyKey(key); err != nil {
		return err
	}
	return context.Cause(ctx)
}

func (b *bodies) get(ctx context.Context, key string) (body, error) {
	if err := valid(ctx, key); err != nil {
		return body{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	found, ok := b.byKey[key]
	if !ok {
		return body{}, fmt.Errorf("%s: %w", key, store.ErrNotFound)
	}
	return found, nil
}

// Open implements [store.BodyStore].
func (b *bodies) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	found, err := b.get(ctx, key)
	if err != nil {
		return nil, 0, err
	}
	return io.NopCloser(bytes.NewReader(found.content)), int64(len(found.content)), nil
}

// Stat implements [store.BodyStore].
func (b *bodies) Stat(ctx context.Context, key string) (store.BodyInfo, error) {
	found, err := b.get(ctx, key)
	if err != nil {
		return store.BodyInfo{}, err
	}
	return found.info(key), nil
}

// Delete implements [store.BodyStore].
func (b *bodies) Delete(ctx context.Context, key string) error {
	if err := valid(ctx, key); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.byKey, key)
	return nil
}

// List implements [store.BodyStore].
func (b *bodies) List(ctx context.Context, prefix string) iter.Seq2[store.BodyInfo, error] {
	return func(yield func(store.BodyInfo, error) bool) {
		b.mu.Lock()
		var found []store.BodyInfo
		for key, stored := range b.byKey {
			if strings.HasPrefix(key, prefix) {
				found = append(found, stored.info(key))
			}
		}
		b.mu.Unlock()
		if err := context.Cause(ctx); err != nil {
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

// forget deletes the bodies of the pages with these prefixes.
func (b *bodies) forget(prefixes map[string]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key := range b.byKey {
		if prefixes[key[:strings.LastIndexByte(key, '/')+1]] {
			delete(b.byKey, key)
		}
	}
}
