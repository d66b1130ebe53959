package httpcache

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

// maxRanges bounds the parts of one answer: each costs a header of its own.
const maxRanges = 32

// IgnoreRange says that a Range field is to be ignored, so that the whole page is sent:
// it names more than maxRanges ranges, or some that overlap, which would send the same
// bytes twice (RFC 9110, section 14.2). A field that cannot be read is not: net/http
// says what is wrong with it.
//
// Ranges of another unit than bytes are ignored, too: net/http would refuse them (RFC
// 9110, section 14.2).
func IgnoreRange(field string, length int64) bool {
	list, isBytes := strings.CutPrefix(field, "bytes=")
	if !isBytes || strings.Count(field, ",") >= maxRanges {
		return true
	}
	if strings.TrimSpace(list) == "-0" {
		return true // the last no bytes: net/http would send an empty part
	}
	if !strings.Contains(list, ",") {
		return false
	}
	var spans []span
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		s, ok := parseSpan(part, length)
		if !ok {
			return false
		}
		spans = append(spans, s)
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	for i := range len(spans) - 1 {
		if spans[i+1].first <= spans[i].last {
			return true
		}
	}
	return false
}

// A span is a range of bytes of a page, both ends included.
type span struct{ first, last int64 }

// parseSpan reads "0-99", "100-" or "-100" (the last hundred bytes) of a page of that
// length.
func parseSpan(s string, length int64) (span, bool) {
	first, last, found := strings.Cut(s, "-")
	switch {
	case !found:
		return span{}, false
	case first == "":
		n, err := strconv.ParseInt(last, 10, 64)
		return span{max(length-n, 0), length - 1}, err == nil
	case last == "":
		last = strconv.FormatInt(math.MaxInt64, 10)
	}
	from, err1 := strconv.ParseInt(strings.TrimSpace(first), 10, 64)
	to, err2 := strconv.ParseInt(strings.TrimSpace(last), 10, 64)
	return span{from, min(to, length-1)}, err1 == nil && err2 == nil
}
