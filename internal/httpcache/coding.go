package httpcache

import (
	"strconv"
	"strings"
)

// A Coding is a content coding (RFC 9110, section 8.4.1), in the order in which this server
// prefers them if a client does not.
type Coding uint8

// The codings that pages are sent in. Identity is the plain body.
const (
	Brotli Coding = iota
	Zstd
	Gzip
	Identity
)

// String returns the coding's token, such as "br".
func (c Coding) String() string { return [...]string{"br", "zstd", "gzip", "identity"}[c] }

// ParseCoding returns the coding of a token; ok is false for others.
func ParseCoding(token string) (c Coding, ok bool) {
	for c := range Identity + 1 {
		if c.String() == token {
			return c, true
		}
	}
	return Identity, false
}

// An Accept is the weight that a client gives each [Coding], in thousandths. 0: it does not
// accept it.
type Accept [Identity + 1]uint16

// Prefer returns the coding among those given that a client prefers, Identity if it prefers the
// plain body, or accepts nothing (RFC 9110, section 12.5.3: it may then get the plain body all the
// same). Of equal weights, the first coding in the order of [Coding] is preferred.
func (a Accept) Prefer(among [Identity]bool) Coding {
	best := Identity
	for c, w := range a[:Identity] {
		if among[c] && w > 0 && (w > a[best] || w == a[best] && best == Identity) {
			best = Coding(c)
		}
	}
	return best
}

// Fully reports whether a coding has the full weight: no other is preferred to it, but those
// before it that have it, too.
func (a Accept) Fully(c Coding) bool { return a[c] == fullWeight }

// Accepts reports whether a coding, as Content-Encoding names it, is acceptable. One that cannot
// be decoded here never is.
func (a Accept) Accepts(token string) bool {
	c, ok := codingNamed(token)
	return ok && a[c] > 0
}

// fullWeight is the weight of a coding without one.
const fullWeight = 1000

// AcceptEncoding reads Accept-Encoding (RFC 9110, section 12.5.3). A coding that is not named
// has the weight of "*", or else none. The plain body is acceptable unless "identity" or "*"
// has the weight 0; if it is not named, each accepted coding is preferred to it. Without the
// field, only the plain body is sent, although any coding would be acceptable. A weight that is
// invalid counts as 0, and of several weights of a coding the first counts. It does not allocate.
func AcceptEncoding(lines []string) Accept {
	if len(lines) == 1 {
		switch lines[0] { // what common clients send
		case "gzip, deflate, br, zstd":
			return Accept{fullWeight, fullWeight, fullWeight, 1}
		case "gzip, deflate, br":
			return Accept{fullWeight, 0, fullWeight, 1}
		case "gzip", "gzip, deflate":
			return Accept{0, 0, fullWeight, 1}
		}
	}
	return acceptEncoding(lines)
}

func acceptEncoding(lines []string) Accept {
	var a Accept
	var named [Identity + 1]bool
	star, hasStar := uint16(0), false
	for _, line := range lines {
		for len(line) > 0 {
			var member string
			member, line, _ = strings.Cut(line, ",")
			token, params, _ := strings.Cut(member, ";")
			token = strings.Trim(token, " \t")
			if token == "*" && !hasStar {
				star, hasStar = thousandths(params), true
			} else if c, ok := codingNamed(token); ok && !named[c] {
				a[c], named[c] = thousandths(params), true
			}
		}
	}
	for c := range Identity {
		if !named[c] {
			a[c] = star
		}
	}
	if !named[Identity] && (!hasStar || star > 0) {
		a[Identity] = 1
	}
	return a
}

func thousandths(params string) uint16 { return uint16(Weight(params)*fullWeight + 0.5) }

// codingNamed is [ParseCoding] for what clients send: in any case, and gzip by its old name.
func codingNamed(token string) (Coding, bool) {
	switch {
	case strings.EqualFold(token, "gzip"), strings.EqualFold(token, "x-gzip"):
		return Gzip, true
	case strings.EqualFold(token, "br"):
		return Brotli, true
	case strings.EqualFold(token, "zstd"):
		return Zstd, true
	case strings.EqualFold(token, "identity"):
		return Identity, true
	}
	return Identity, false
}

// Compressible reports whether a content type is text or another format that codings shrink.
func Compressible(contentType string) bool {
	t, _, _ := strings.Cut(contentType, ";")
	t = strings.ToLower(strings.TrimSpace(t))
	if strings.HasPrefix(t, "text/") || strings.HasSuffix(t, "+json") || strings.HasSuffix(t, "+xml") {
		return true
	}
	switch t {
	case "application/json", "application/javascript", "application/xml", "application/wasm",
		"application/manifest+json", "image/svg+xml", "application/vnd.ms-fontobject", "font/ttf", "font/otf":
		return true
	}
	return false
}

// Weight returns the weight (RFC 9110, section 12.4.2) in the parameters of a member: 1 if there
// is none, 0 if it is invalid. Digits beyond the third are read, too. It does not allocate.
func Weight(params string) float64 {
	params, _, _ = strings.Cut(params, ";")
	params = strings.Trim(params, " \t")
	if len(params) < 2 || (params[0] != 'q' && params[0] != 'Q') || params[1] != '=' {
		return 1
	}
	text := params[2:]
	if strings.Trim(text, "0123456789.") != "" { // as ParseFloat knows other forms
		return 0
	}
	q, err := strconv.ParseFloat(text, 64)
	if err != nil || q > 1 {
		return 0
	}
	return q
}
