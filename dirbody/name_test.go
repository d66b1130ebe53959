package dirbody

import (
	"path"
	"strings"
	"testing"

	"github.com/facetheory/isr/store"
)

// pageHash is the folder of a page's bodies.
const pageHash = "bodies/03abcdef03abcdef03abcdef03abcdef03abcdef03abcdef03abcdef03abcdef"

func TestFileNamesOfPages(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		pageHash + "/20261121T183412.767908Z-bvwj": "bodies/03a/" + pageHash[10:] + ".20261121%54183412%2e767908%5a-bvwj.body",
		pageHash + "/x":   "bodies/03a/" + pageHash[10:] + ".x.body",
		pageHash + "/a/b": pageHash + "/a/b.body",
		pageHash:          pageHash + ".body",
		strings.ToUpper(pageHash[:8]) + pageHash[8:] + "/x": "%42%4f%44%49%45%53/03" + pageHash[9:] + "/x.body",
		"bodies/03a/x": "bodies/03a/x.body",
	} {
		if got := fileName(key); got != want {
			t.Errorf("%q is at %q, want %q", key, got, want)
		}
	}
}

func FuzzFileName(f *testing.F) {
	for _, key := range []string{
		"a", "bodies/03ab/1", "A.b%/..x/\u00e9", strings.Repeat("k", 1024), strings.Repeat("%", 300) + "/x",
		pageHash + "/20261121T183412.767908Z-bvwj", pageHash + "/x.codings", pageHash + "/a/b", pageHash, pageHash + "/" + strings.Repeat("%", 61),
		"bodies/03a/" + strings.Repeat("a", 61) + ".x", "bodies/03a/x",
	} {
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
	if key, ok := pageKey(name); ok {
		if base := path.Base(name); len(base) > 255 {
			t.Fatalf("the name %q has %d bytes", base, len(base))
		}
		return key
	}
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
