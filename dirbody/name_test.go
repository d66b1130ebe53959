package dirbody

import (
	"path"
	"strings"
	"testing"

	"github.com/facetheory/isr/store"
)

func FuzzFileName(f *testing.F) {
	for _, key := range []string{"a", "bodies/03ab/1", "A.b%/..x/\u00e9", strings.Repeat("k", 1024), strings.Repeat("%", 300) + "/x"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if store.ValidBodyKey(key) != nil {
			return
		}
		name := fileName(key)
		if path.Clean(name) != name || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "/") {
			t.Fatalf("%q becomes %q", key, name)
		}
		if got := keyOf(t, name); got != key {
			t.Fatalf("%q becomes %q becomes %q", key, name, got)
		}
	})
}

// keyOf joins the names on a path to a key, as a listing does.
func keyOf(t *testing.T, name string) string {
	t.Helper()
	key := ""
	for _, element := range strings.Split(name, "/") {
		if len(element) > 255 {
			t.Fatalf("the name %q has %d bytes", element, len(element))
		}
		part, kind := parseName(element)
		key += part
		switch kind {
		case folder:
			key += "/"
		case chunk, body:
		case foreign:
			t.Fatalf("%q is parsed as foreign", element)
		}
	}
	return key
}
