package value

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
)

// Fault is something wrong with a value for which AWS has two wordings: that
// of most operations, which is the error's message, and an older one.
type Fault struct {
	current, older string
}

func (f *Fault) Error() string { return f.current }

// Older returns the words that BatchWriteItem and Scan say.
func (f *Fault) Older() string { return f.older }

func notNumber(s string) error {
	const words = "The parameter cannot be converted to a numeric value"
	if s == "" {
		return &Fault{words + ": ", words}
	}
	if len(s) > 64 {
		s = s[:64] + "..."
	}
	return &Fault{words + ": " + s, words + ": " + s}
}

const invalidCollection = "One or more parameter values were invalid: Input collection "

// errTwiceSS, errTwiceNS and errTwiceBS are about sets that hold a member twice.
func errTwiceSS(members []string) error {
	return &Fault{
		invalidCollection + "[" + strings.Join(quoted(repeated(members)), ", ") + "] contains duplicates.",
		invalidCollection + "[" + strings.Join(members, ", ") + "] contains duplicates.",
	}
}

func errTwiceNS() error {
	return &Fault{invalidCollection + "contains duplicates.", "Input collection contains duplicates"}
}

func errTwiceBS(set [][]byte) error {
	encode := func(members []string) []string {
		out := make([]string, len(members))
		for i, m := range members {
			out[i] = base64.StdEncoding.EncodeToString([]byte(m))
		}
		return out
	}
	members := binaryMembers(set)
	return &Fault{
		invalidCollection + "[" + strings.Join(quoted(encode(repeated(members))), ",") + "]of type BS contains duplicates.",
		invalidCollection + "[" + strings.Join(encode(members), ", ") + "]of type BS contains duplicates.",
	}
}

// repeated orders members as AWS shows them: those before the first that is
// there twice by their bytes, then the others as they were given.
func repeated(members []string) []string {
	for i, m := range members {
		if slices.Contains(members[:i], m) {
			return slices.Concat(slices.Sorted(slices.Values(members[:i])), members[i:])
		}
	}
	return members
}

func quoted(texts []string) []string {
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = strconv.Quote(text)
	}
	return out
}
