package simulator

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Contents name themselves: each line of a body says of which page and which
// content it is, so that no mixture of two can be taken for either.

// contentName names one content of a page that the origin made.
func contentName(path string, n int) string { return fmt.Sprintf("%s@%d", path, n) }

// bodyOf is the body of a content; they differ in length too.
func bodyOf(content string) []byte {
	var b strings.Builder
	lines := 3 + int(digest([]byte(content))[0])%7
	for i := range lines {
		fmt.Fprintf(&b, "%s line %d of %d\n", content, i+1, lines)
	}
	return []byte(b.String())
}

// contentOf is the content that a body claims to be of by its first line, and
// whether it is that and nothing else.
func contentOf(body []byte) (content string, whole bool) {
	content, _, _ = strings.Cut(string(body), " ")
	return content, content != "" && string(bodyOf(content)) == string(body)
}

// etagOf is the entity tag that the renderer gives a content.
func etagOf(content string) string { return `"` + content + `"` }

// tags are those that contents have, one each.
func tags() []string { return []string{"even", "odd"} }

// tagOf is the tag that the renderer gives a content.
func tagOf(content string) string { return tags()[digest([]byte(content))[0]%2] }

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
