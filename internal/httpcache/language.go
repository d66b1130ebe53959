package httpcache

import (
	"strings"
)

// maxLanguageRanges bounds the ranges of Accept-Language that are considered.
const maxLanguageRanges = 32

// A languageRange is a member of Accept-Language.
type languageRange struct {
	tag    string
	weight float64 // 0: the visitor does not want it
}

// NegotiateLanguage returns the index of the tag that Accept-Language prefers, 0 if it
// accepts none of them (RFC 9110, section 12.5.4; RFC 4647). It considers the first 32
// ranges, and does not allocate.
func NegotiateLanguage(lines, tags []string) int {
	var array [maxLanguageRanges]languageRange
	ranges := array[:0]
	for _, line := range lines {
		for len(line) > 0 && len(ranges) < maxLanguageRanges {
			var member string
			member, line, _ = strings.Cut(line, ",")
			tag, params, _ := strings.Cut(member, ";")
			if tag = strings.TrimSpace(tag); tag != "" {
				ranges = append(ranges, languageRange{tag, Weight(params)})
			}
		}
	}
	best, of := 0, languageMatch{}
	for i, tag := range tags {
		if m := matchLanguage(tag, ranges); m.better(of) {
			best, of = i, m
		}
	}
	return best
}

// A languageMatch is how well a tag is what a visitor wants.
type languageMatch struct {
	weight   float64
	at       int // the index of the range that the weight comes from
	distance int // the length of what the tag and the range differ by
}

func (m languageMatch) better(than languageMatch) bool {
	switch {
	case m.weight != than.weight:
		return m.weight > than.weight
	case m.at != than.at:
		return m.weight > 0 && m.at < than.at
	}
	return m.weight > 0 && m.distance < than.distance
}

func matchLanguage(tag string, ranges []languageRange) languageMatch {
	best, specific := languageMatch{}, -1
	for i, r := range ranges { // the most specific range decides
		switch {
		case r.tag == "*" && specific < 0:
			best, specific = languageMatch{r.weight, i, 0}, 0
		case r.tag != "*" && isLanguagePrefix(r.tag, tag) && len(r.tag) > specific:
			best, specific = languageMatch{r.weight, i, len(tag) - len(r.tag)}, len(r.tag)
		}
	}
	for i, r := range ranges { // a visitor who asks for a dialect takes the language
		if len(r.tag) > len(tag) && isLanguagePrefix(tag, r.tag) {
			if m := (languageMatch{r.weight, i, len(r.tag) - len(tag)}); m.better(best) {
				best = m
			}
		}
	}
	return best
}

// isLanguagePrefix reports whether a tag begins with the subtags of another one, or is equal.
func isLanguagePrefix(prefix, tag string) bool {
	return len(tag) >= len(prefix) && strings.EqualFold(tag[:len(prefix)], prefix) && (len(tag) == len(prefix) || tag[len(prefix)] == '-')
}
