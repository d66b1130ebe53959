package value

import (
	"cmp"
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
		invalidCollection + "[" + list(inMessageOrder(members), ", ", strconv.Quote) + "] contains duplicates.",
		invalidCollection + "[" + list(members, ", ", strings.Clone) + "] contains duplicates.",
	}
}

func errDuplicateNS() error {
	return &Fault{invalidCollection + "contains duplicates.", "Input collection contains duplicates"}
}

func errDuplicateBS(set [][]byte) error {
	encode := func(member string) string { return base64.StdEncoding.EncodeToString([]byte(member)) }
	members := binaryMembers(set)
	return &Fault{
		invalidCollection + "[" + list(inMessageOrder(members), ",", func(member string) string { return strconv.Quote(encode(member)) }) + "]of type BS contains duplicates.",
		invalidCollection + "[" + list(members, ", ", encode) + "]of type BS contains duplicates.",
	}
}

// inMessageOrder orders members as AWS's message lists them: those before the
// first duplicate sorted bytewise, the rest in the order of the request.
func inMessageOrder(members []string) []string {
	first := firstDuplicate(members)
	return slices.Concat(slices.Sorted(slices.Values(members[:first])), members[first:])
}

// firstDuplicate returns the position of the first member that equals an earlier
// one, or the number of members if there is none.
func firstDuplicate(members []string) int {
	order := make([]int, len(members))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(strings.Compare(members[a], members[b]), cmp.Compare(a, b))
	})
	first := len(members)
	for i := 1; i < len(order); i++ {
		if members[order[i-1]] == members[order[i]] {
			first = min(first, order[i])
		}
	}
	return first
}

// maxListed is the maximum size of the members that a message lists, in bytes. A
// request may have 16 MiB of them.
const maxListed = 32 << 10

// list joins the formatted members. It ends with "..." if they exceed maxListed.
func list(members []string, separator string, format func(string) string) string {
	var b strings.Builder
	for i, m := range members {
		if i > 0 {
			b.WriteString(separator)
		}
		if b.Len()+len(m) > maxListed {
			b.WriteString("...")
			break
		}
		b.WriteString(format(m))
	}
	return b.String()
}
