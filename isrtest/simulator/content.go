package simulator

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Contents identify themselves: each line of a body names its page and content, so that
// a mixture of two cannot pass for either.

// contentName names one content of a page that the origin rendered.
func contentName(path string, n int) string { return fmt.Sprintf("%s@%d", path, n) }

// bodyOf returns the body of a content; bodies differ in length too.
func bodyOf(content string) []byte {
	var b strings.Builder
	lines := 3 + int(digest([]byte(content))[0])%7
	for i := range lines {
		fmt.Fprintf(&b, "%s line %d of %d\n", content, i+1, lines)
	}
	return []byte(b.String())
}

// contentOf returns the content that the first line of a body names, and whether the
// body is exactly that content's.
func contentOf(body []byte) (content string, whole bool) {
	content, _, _ = strings.Cut(string(body), " ")
	return content, content != "" && string(bodyOf(content)) == string(body)
}

// etagOf returns the entity tag of a content.
func etagOf(content string) string { return `"` + content + `"` }

// tags are the tags of contents; each content has one.
func tags() []string { return []string{"even", "odd"} }

// tagOf returns the tag of a content.
func tagOf(content string) string { return tags()[digest([]byte(content))[0]%2] }

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
