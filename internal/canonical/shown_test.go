package canonical

import (
	"strings"
	"testing"
)

func TestShown(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "",
		"example.com/a@b?c=@":                  "example.com/a@b?c=@",
		"https://me:secret@example.com/a":      "https://example.com/a",
		"me:secret@example.com":                "example.com",
		"ftp://me:sec@ret@example.com?x":       "ftp://example.com?x",
		"https://me:secret@":                   "https://",
		strings.Repeat("x", 100):               strings.Repeat("x", 100),
		strings.Repeat("x", 101):               strings.Repeat("x", 100) + "...",
		strings.Repeat("x", 99) + "\u00e4 and": strings.Repeat("x", 99) + "...",
		"me:" + strings.Repeat("s", 200) + "@example.com/": "example.com/",
	} {
		if got := Shown(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
