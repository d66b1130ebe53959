package dirbody

import (
	"strings"
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
const (
	bodySuffix  = ".body"
	chunkSuffix = "%"
	maxChunk    = 80 // bytes before escaping: 3*80 and a suffix are below 255
)

const lowerHex = "0123456789abcdef"

// fileName returns the path of a key's file, relative to the root.
func fileName(key string) string {
	return folderName(key) + bodySuffix
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
		if isPlain(c) {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(lowerHex[c>>4])
		b.WriteByte(lowerHex[c&15])
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
