package store_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/facetheory/isr/store"
)

func TestValidBodyKey(t *testing.T) {
	valid := []string{
		"a", "a/b", "bodies/0123/0192f0c1", "...", "..a/.b/c..", "with space/ä/日本/😀",
		"A+B=C&d%20?#", strings.Repeat("k", 1024), strings.Repeat("k/", 511) + "kk",
	}
	for _, key := range valid {
		if err := store.ValidBodyKey(key); err != nil {
			t.Errorf("%q is refused: %v", key, err)
		}
	}
	invalid := []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "./a", "a/..", "a/./b", "../../etc/passwd",
		`a\b`, "a\x00b", "a\nb", "a\x7f", "a\xff", "\xed\xa0\x80", "a\ufffe", "a\uffff",
		strings.Repeat("k", 1025), strings.Repeat("ä", 513),
	}
	for _, key := range invalid {
		if err := store.ValidBodyKey(key); !errors.Is(err, store.ErrInvalidKey) {
			t.Errorf("%q is answered with %v, not with ErrInvalidKey", key, err)
		}
	}
}
