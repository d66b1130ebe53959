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

// codingsSuffix ends the keys of codings.
const codingsSuffix = ".codings"

// CodingsKey returns the key of the object beside a body that has its content codings (gzip
// and others). No row refers to it: it belongs to its body, and is garbage as soon as that is.
// It can be made again from the body, so that it need not survive a crash, and a reader that
// misses it, or finds it damaged, loses nothing but time.
func CodingsKey(bodyKey string) string { return bodyKey + codingsSuffix }

// CodedBody returns the key of the body that a key of [CodingsKey] belongs to. ok is false for
// other keys. A row of another service may refer to a body by such a key; then it is a body.
func CodedBody(key string) (bodyKey string, ok bool) { return strings.CutSuffix(key, codingsSuffix) }

// BodyRoot is the prefix of all body keys that the cache writes.
const BodyRoot = "bodies/"

// BodyPrefix is the prefix of the keys of all bodies of a partition.
func BodyPrefix(pk string) string {
	sum := sha256.Sum256([]byte(pk))
	return BodyRoot + hex.EncodeToString(sum[:]) + "/"
}
