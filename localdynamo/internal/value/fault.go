package value

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
)

// Fault is a validation error for which AWS has two messages: the current one,
// which Error returns and most operations use, and an older one.
type Fault struct {
	current, older string
}

func (f *Fault) Error() string { return f.current }

// Older returns the message that BatchWriteItem and Scan use.
func (f *Fault) Older() string { return f.older }

func notNumber(s string) error {
	const message = "The parameter cannot be converted to a numeric value"
	if s == "" {
		return &Fault{message + ": ", message}
	}
	if len(s) > 64 {
		s = s[:64] + "..."
	}
	return &Fault{message + ": " + s, message + ": " + s}
}

const invalidCollection = "One or more parameter values were invalid: Input collection "

// errDuplicateSS, errDuplicateNS and errDuplicateBS report duplicate set members.
func errDuplicateSS(members []string) error {
	return &Fault{
		invalidCollection + "[" + strings.Join(quoted(inMessageOrder(members)), ", ") + "] contains duplicates.",
		invalidCollection + "[" + strings.Join(members, ", ") + "] contains duplicates.",
	}
}

func errDuplicateNS() error {
	return &Fault{invalidCollection + "contains duplicates.", "Input collection contains duplicates"}
}

func errDuplicateBS(set [][]byte) error {
	encode := func(members []string) []string {
		out := make([]string, len(members))
		for i, m := range members {
			out[i] = base64.StdEncoding.EncodeToString([]byte(m))
		}
		return out
	}
	members := binaryMembers(set)
	return &Fault{
		invalidCollection + "[" + strings.Join(quoted(encode(inMessageOrder(members))), ",") + "]of type BS contains duplicates.",
		invalidCollection + "[" + strings.Join(encode(members), ", ") + "]of type BS contains duplicates.",
	}
}

// inMessageOrder orders members as AWS's message lists them: those before the
// first duplicate sorted bytewise, the rest in the order of the request.
func inMessageOrder(members []string) []string {
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
