package dirbody

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/facetheory/isr/internal/localfile"
	"github.com/facetheory/isr/store"
)

// File names. A key becomes a path, element by element, so that people find a body
// where they expect it:
//
//	bodies/03ab/0192f0c1  ->  bodies/03ab/0192f0c1.body
//
// Bytes other than a-z, 0-9, '_' and '-' are written as %xx. So two names never differ
// only in letter case or Unicode form, which some file systems ignore; a folder never
// has the name of a body ("a" and "a/b" can both exist); and no name begins with a
// dot, which reserves ".tmp". File systems limit names to 255 bytes, so an element
// longer than maxChunk is split into chunks: all but the last are folders whose names
// end in '%'.
//
// The bodies of pages, bodies/<64 hex digits>/<generation>, are in 4,096 folders, so that a
// new page needs no folder of its own, and to list the bodies of one page among ten million is
// to read one folder of some 2,500 names:
//
//	bodies/03ab…/0192f0c1  ->  bodies/03a/b….0192f0c1.body
//
// Their names contain a dot that no other name has. Before, they had a folder for each
// page, as other keys still do: see [Store.earlierName].
const (
	bodySuffix  = ".body"
	chunkSuffix = "%"
	maxChunk    = 80 // bytes before escaping: 3*80 and a suffix are below 255

	hashLength   = 64 // hex digits of a page's hash
	fanOut       = 3  // of them name the folder
	hashEnd      = len(store.BodyRoot) + hashLength
	maxPageName  = 180 // bytes after escaping: with 61 digits, a dot and a suffix below 255
	pageBodyMark = "."
)

const lowerHex = "0123456789abcdef"

// fileName returns the path of a key's file, relative to the root.
func fileName(key string) string {
	if name := pageFile(key); name != "" {
		return name
	}
	return folderName(key) + bodySuffix
}

// earlierName returns the path at which earlier versions stored the body of a page. ok is
// false for keys whose path has not changed, and in directories that earlier versions did not use.
func (s *Store) earlierName(key string) (name string, ok bool) {
	if !s.earlier || pageFile(key) == "" {
		return "", false
	}
	return folderName(key) + bodySuffix, true
}

// hasEarlier reports whether a directory has folders of pages that earlier versions made.
func hasEarlier(in localfile.FS) (bool, error) {
	bodies, err := in.OpenFile(strings.TrimSuffix(store.BodyRoot, "/"), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer bodies.Close()
	for {
		names, err := bodies.Readdirnames(1000)
		for _, name := range names {
			if isPageHash(store.BodyRoot + name) {
				return true, nil
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return false, err
		}
	}
}

// pageFile returns the path of the body of a page; empty for other keys.
func pageFile(key string) string {
	if len(key) < hashEnd+2 || key[hashEnd] != '/' || !isPageHash(key[:hashEnd]) || strings.IndexByte(key[hashEnd+1:], '/') >= 0 {
		return ""
	}
	hash, generation := key[len(store.BodyRoot):hashEnd], escape(key[hashEnd+1:])
	if len(generation) > maxPageName {
		return ""
	}
	return store.BodyRoot + hash[:fanOut] + "/" + hash[fanOut:] + pageBodyMark + generation + bodySuffix
}

// isPageHash reports whether text is bodies/ and 64 hex digits.
func isPageHash(text string) bool {
	hash, ok := strings.CutPrefix(text, store.BodyRoot)
	return ok && len(hash) == hashLength && isHex(hash)
}

// isFanOut reports whether a folder is one of those for the bodies of pages.
func isFanOut(folder string) bool {
	digits, ok := strings.CutPrefix(folder, store.BodyRoot)
	return ok && len(digits) == fanOut && isHex(digits)
}

func isHex(s string) bool {
	for i := range len(s) {
		if strings.IndexByte(lowerHex, s[i]) < 0 {
			return false
		}
	}
	return true
}

// pageKey reverses pageFile. It returns false for all other paths.
func pageKey(name string) (key string, ok bool) {
	const digits = hashLength - fanOut
	rest, ok := strings.CutPrefix(name, store.BodyRoot)
	if !ok || len(rest) < fanOut+1+digits || rest[fanOut] != '/' {
		return "", false
	}
	generation, ok := strings.CutSuffix(rest[fanOut+1+digits:], bodySuffix)
	if !ok {
		return "", false
	}
	generation, ok = strings.CutPrefix(generation, pageBodyMark)
	if !ok {
		return "", false
	}
	if generation, ok = unescape(generation); !ok {
		return "", false
	}
	key = store.BodyRoot + rest[:fanOut] + rest[fanOut+1:fanOut+1+digits] + "/" + generation
	return key, pageFile(key) == name
}

func escape(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for i := range len(s) {
		writeEscaped(&b, s[i])
	}
	return b.String()
}

func writeEscaped(b *strings.Builder, c byte) {
	if isPlain(c) {
		b.WriteByte(c)
		return
	}
	b.WriteByte('%')
	b.WriteByte(lowerHex[c>>4])
	b.WriteByte(lowerHex[c&15])
}

// folderName returns the path of the folder for the keys below key.
func folderName(key string) string {
	var b strings.Builder
	inChunk := 0
	for i := range len(key) {
		c := key[i]
		if c == '/' {
			b.WriteByte(c)
			inChunk = 0
			continue
		}
		if inChunk == maxChunk {
			b.WriteString(chunkSuffix + "/")
			inChunk = 0
		}
		inChunk++
		writeEscaped(&b, c)
	}
	return b.String()
}

func isPlain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// A nameKind is what a name in the directory represents.
type nameKind int

const (
	foreign nameKind = iota // not made by this package
	folder                  // a whole element, with keys below it
	chunk                   // a part of a long element, not the last
	body                    // the last element of a key
)

// parseName reverses folderName and fileName for one name in a directory.
func parseName(name string) (part string, kind nameKind) {
	escaped, isBody := strings.CutSuffix(name, bodySuffix)
	escaped, isChunk := strings.CutSuffix(escaped, chunkSuffix)
	part, ok := unescape(escaped)
	switch {
	case !ok || part == "" || len(part) > maxChunk || folderName(part) != escaped:
		return "", foreign
	case isBody && isChunk, isChunk && len(part) != maxChunk:
		return "", foreign
	case isBody:
		return part, body
	case isChunk:
		return part, chunk
	}
	return part, folder
}

func unescape(escaped string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(escaped); i++ {
		if escaped[i] != '%' {
			b.WriteByte(escaped[i])
			continue
		}
		if i+2 >= len(escaped) {
			return "", false
		}
		high, low := strings.IndexByte(lowerHex, escaped[i+1]), strings.IndexByte(lowerHex, escaped[i+2])
		if high < 0 || low < 0 {
			return "", false
		}
		b.WriteByte(byte(high<<4 | low))
		i += 2
	}
	return b.String(), true
}
