package store

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxBodyKeyLength is the longest body key in bytes, which is the limit of S3.
const maxBodyKeyLength = 1024

// ValidBodyKey returns an error wrapping [ErrInvalidKey] unless key is valid in every
// [BodyStore]: a relative slash-separated path of at most 1,024 bytes of UTF-8, without
// empty, "." or ".." elements, and without characters that XML (and so the S3 listing)
// cannot carry or that a file system may take for a separator: control characters,
// U+FFFE, U+FFFF, backslash.
func ValidBodyKey(key string) error {
	if key == "" {
		return fmt.Errorf("%w: the body key is empty", ErrInvalidKey)
	}
	if len(key) > maxBodyKeyLength {
		return fmt.Errorf("%w: the body key %.40q... has %d bytes, at most %d are allowed", ErrInvalidKey, key, len(key), maxBodyKeyLength)
	}
	if !utf8.ValidString(key) {
		return fmt.Errorf("%w: the body key %q is not UTF-8", ErrInvalidKey, key)
	}
	if i := strings.IndexFunc(key, forbiddenInBodyKey); i >= 0 {
		return fmt.Errorf("%w: the body key %q has a forbidden character at byte %d", ErrInvalidKey, key, i)
	}
	for element := range strings.SplitSeq(key, "/") {
		if element == "" || element == "." || element == ".." {
			return fmt.Errorf("%w: the body key %q has an element %q", ErrInvalidKey, key, element)
		}
	}
	return nil
}

func forbiddenInBodyKey(r rune) bool {
	return r < 0x20 || r == 0x7f || r == '\\' || r == 0xfffe || r == 0xffff
}

// BodyRoot is the prefix of all body keys that the cache writes.
const BodyRoot = "bodies/"

// BodyPrefix is the prefix of the keys of all bodies of a partition.
func BodyPrefix(pk string) string {
	sum := sha256.Sum256([]byte(pk))
	return BodyRoot + hex.EncodeToString(sum[:]) + "/"
}
