package disktier_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/facetheory/isr/internal/disktier"
	"github.com/facetheory/isr/store"
)

// readPart reads a part of a body.
func readPart(t *testing.T, s *disktier.Tier, key string, offset, length int64) []byte {
	t.Helper()
	rd, _, err := s.OpenRange(t.Context(), key, offset, length)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(rd)
	if err := errors.Join(err, rd.Close()); err != nil {
		t.Fatal(err)
	}
	return got
}

// A long body is kept as it is read, by Open and as a whole range; parts of it come from its file then,
// also in the next process, unless it is damaged.
func TestLongBodyIsKeptWhileItIsRead(t *testing.T) {
	t.Parallel()
	const n = 1 << 20
	for _, ranged := range []bool{true, false} {
		dir, b, s := t.TempDir(), newBucket(t), new(seen)
		if err := b.Put(t.Context(), key(1), body(1, n)); err != nil {
			t.Fatal(err)
		}
		tier := open(t, dir, 64<<20, b, s)
		if got := readPart(t, tier, key(1), 5, 10); !bytes.Equal(got, body(1, 10)) || len(files(t, dir)) != 0 {
			t.Errorf("a part: %q, files %v", got, files(t, dir))
		}
		opened := b.opened.Load()
		if ranged {
			if got := readPart(t, tier, key(1), 0, n); !bytes.Equal(got, body(1, n)) {
				t.Errorf("%d bytes", len(got))
			}
		} else if got := read(t, tier, key(1)); !bytes.Equal(got, body(1, n)) {
			t.Errorf("%d bytes", len(got))
		}
		for i := range 2 { // this process and the next
			if got := readPart(t, tier, key(1), n-3, 3); !bytes.Equal(got, body(1, 3)) {
				t.Errorf("process %d, from the file: %q", i, got)
			}
			if err := tier.Close(); err != nil {
				t.Fatal(err)
			}
			tier = open(t, dir, 64<<20, b, s)
		}
		if opened++; b.opened.Load() != opened || s.hits.Load() != 2 || len(files(t, dir)) != 1 {
			t.Errorf("ranged %v: %d were opened, want %d; %d hits; files %v", ranged, b.opened.Load(), opened, s.hits.Load(), files(t, dir))
		}
		damage(t, files(t, dir)[0])
		if got := readPart(t, tier, key(1), n-3, 3); !bytes.Equal(got, body(1, 3)) || len(files(t, dir)) != 0 {
			t.Errorf("of a damaged file: %q, files %v", got, files(t, dir))
		}
		if err := tier.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// damage changes the last byte of a file.
func damage(t *testing.T, file string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err == nil {
		content[len(content)-1] ^= 1
		err = os.WriteFile(file, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Of a body that is not read to its end, nothing is kept; nor does Close wait for its reader.
func TestLongBodyThatIsNotReadToItsEnd(t *testing.T) {
	t.Parallel()
	dir, b := t.TempDir(), newBucket(t)
	if err := b.Put(t.Context(), key(1), body(1, 1<<20)); err != nil {
		t.Fatal(err)
	}
	tier := open(t, dir, 64<<20, b, new(seen))
	var readers []io.ReadCloser
	for range 2 {
		rd, _, err := tier.Open(t.Context(), key(1))
		if err == nil {
			_, err = io.ReadFull(rd, make([]byte, 1000))
		}
		if err != nil {
			t.Fatal(err)
		}
		readers = append(readers, rd)
	}
	if err := readers[0].Close(); err != nil || len(files(t, dir)) != 1 {
		t.Errorf("%v, files %v", err, files(t, dir))
	}
	if err := tier.Close(); err != nil {
		t.Error(err)
	}
	if got, err := io.ReadAll(readers[1]); err != nil || len(got) != 1<<20-1000 {
		t.Errorf("after Close: %d bytes, %v", len(got), err)
	}
	if err := readers[1].Close(); err != nil {
		t.Error(err)
	}
	tier = open(t, dir, 64<<20, b, new(seen))
	if _, err := tier.ReadLocal(t.Context(), key(1), 1<<20); !errors.Is(err, store.ErrNotFound) || len(files(t, dir)) != 0 {
		t.Errorf("%v, files %v", err, files(t, dir))
	}
	if err := tier.Close(); err != nil {
		t.Error(err)
	}
}
