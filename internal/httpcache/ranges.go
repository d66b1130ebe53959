package httpcache

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
)

// maxRanges is the largest number of parts of a response: each part has its own header.
const maxRanges = 32

// IgnoreRange reports whether a Range field must be ignored, so that the whole page of
// length bytes is sent (RFC 9110, section 14.2): it has more than 32 ranges, overlapping
// ranges, which would send the same bytes twice, or a unit other than bytes, which net/http
// would refuse. It is false for a malformed field, for which net/http has an error.
func IgnoreRange(field string, length int64) bool {
	list, isBytes := strings.CutPrefix(field, "bytes=")
	if !isBytes || strings.Count(field, ",") >= maxRanges {
		return true
	}
	if strings.TrimSpace(list) == "-0" {
		return true // the last zero bytes: net/http would send an empty part
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

// EndOfRange returns the end, exclusive, of the range of a Range field that begins at an offset, for a
// page of length bytes; length if there is none.
func EndOfRange(field string, offset, length int64) int64 {
	for _, s := range spansOf(field, length) {
		if s.first == offset {
			return s.last + 1
		}
	}
	return length
}

// FirstOfRange returns the offset of the first byte of the first range of a Range field, for a page of
// length bytes; 0 if there is none.
func FirstOfRange(field string, length int64) int64 {
	for _, s := range spansOf(field, length) {
		return s.first
	}
	return 0
}

// spansOf returns the ranges of a Range field that a page of length bytes has.
func spansOf(field string, length int64) (spans []span) {
	list, _ := strings.CutPrefix(field, "bytes=")
	for part := range strings.SplitSeq(list, ",") {
		s, ok := parseSpan(strings.TrimSpace(part), length)
		if ok && s.first >= 0 && s.first <= s.last {
			spans = append(spans, s)
		}
	}
	return spans
}

// A span is an inclusive range of bytes.
type span struct{ first, last int64 }

// parseSpan parses "0-99", "100-" or "-100" (the last hundred bytes) for a page of a length.
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
