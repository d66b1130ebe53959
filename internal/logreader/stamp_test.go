package logreader

import (
	"testing"
	"time"
)

// Times are what the time package makes of them, whichever came before.
func TestStamps(t *testing.T) {
	var s stamps
	for _, text := range []string{
		"10/Oct/2026:13:55:36 +0000", "10/Oct/2026:13:55:59 +0000", "10/Oct/2026:13:55:59 -0700", "10/Oct/2026:13:56:00 -0700", "10/Oct/2026:13:56:60 -0700",
		"10/Oct/2026:13:56:1x -0700", "10/Oct/2026:13:56:01 +070", "31/Feb/2026:13:56:01 +0000", "10/Oct/2026:13:56:01 +0000", "10/Oct/2026:13:56.01 +0000", "",
	} {
		want, err := time.Parse(stampLayout, text)
		if got, ok := s.parse([]byte(text)); ok != (err == nil) || !got.Equal(want) {
			t.Errorf("%q is %s (%v), want %s (%v)", text, got, ok, want, err)
		}
	}
}

// A field in quotes ends at the first quote that is not escaped.
func TestFields(t *testing.T) {
	for text, want := range map[string]string{
		`"a b" c`: "a b", `"" c`: "", `"a\"b" c`: `a\"b`, `"a\\" c`: `a\\`, `"a\\\"" c`: `a\\\"`, `[a\]b] c`: `a\]b`, `"\x22\"\"x" "y"`: `\x22\"\"x`,
	} {
		s := scanner{[]byte(text)}
		if got, ok := s.next(); !ok || string(got) != want {
			t.Errorf("%s: %q (%v), want %q", text, got, ok, want)
		}
	}
	for _, text := range []string{`"a`, `"a\"`, `"`, `"\`, `[a"`} {
		s := scanner{[]byte(text)}
		if got, ok := s.next(); ok {
			t.Errorf("%s: %q, want none", text, got)
		}
	}
}
