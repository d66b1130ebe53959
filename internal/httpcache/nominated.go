package httpcache

import (
	"net/textproto"
	"net/url"
	"slices"
	"strings"
)

// Nominated is a request header that the Vary of a response names, with the value that the response
// was rendered with; Value is empty if the request had no such header.
type Nominated struct{ Name, Value string }

// NominatedBy returns the headers that the lines of a Vary name, except those that every cache key
// covers. variant, the variant of the key, has their values ("name=value" joined by "&").
func NominatedBy(variant string, vary []string) []Nominated {
	var all []Nominated
	var values url.Values
	for _, line := range vary {
		for name := range Members(line) {
			name = textproto.CanonicalMIMEHeaderKey(name)
			if name == "Accept-Encoding" || name == "Host" || slices.ContainsFunc(all, func(n Nominated) bool { return n.Name == name }) {
				continue
			}
			if values == nil {
				values, _ = url.ParseQuery(variant) // what it cannot parse is no value
			}
			all = append(all, Nominated{name, values.Get(strings.ToLower(name))})
		}
	}
	return all
}
