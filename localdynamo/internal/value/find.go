package value

import (
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Find calls fn for each attribute of the item whose name is in names, which must be
// sorted, in ascending order. It reads the item once: the work grows with its
// attributes, and with the logarithm of the number of names.
func (it Item) Find(names []string, fn func(name string, v types.AttributeValue)) error {
	r := reader{s: string(it)}
	r.uvarint()
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		found := r.text()
		if names = from(names, found); len(names) == 0 {
			break
		}
		if names[0] != found {
			r.skip()
			continue
		}
		if v := r.value(1); !r.bad {
			fn(found, v)
		}
	}
	if r.bad {
		return ErrMalformed
	}
	return nil
}

// from returns the sorted names without those that are less than name. The work
// grows with the logarithm of their number.
func from(names []string, name string) []string {
	end := 1
	for end <= len(names) && names[end-1] < name {
		end *= 2
	}
	start := end / 2
	at, _ := slices.BinarySearch(names[start:min(end, len(names))], name)
	return names[start+at:]
}
