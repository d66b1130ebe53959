package store

import (
	"strings"
	"testing"
)

// Errors name the beginning of what was given, and never a password.
func TestErrorsOfKeysAreShort(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	for _, text := range []string{
		"https://me:secret@example.com/a", "me:secret@example.com", "ftp://me:secret@example.com/", "http://me:secret@/" + long,
		long + "!", "example.com/%zz" + long, "example.com/?a=%zz" + long, "ftp://" + long,
	} {
		if _, err := ParseKey("", text); err == nil || strings.Contains(err.Error(), "secret") || len(err.Error()) > 400 {
			t.Errorf("%.50s: %v", text, err)
		}
	}
}
