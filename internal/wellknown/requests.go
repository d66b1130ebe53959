package wellknown

import (
	"cmp"
	"slices"
	"strings"
)

// An entry is a name, or the beginning of names, of spec/requests.json.
type entry struct{ name, reason string }

// A list has the names of one kind. Both tables are sorted by name, and no prefix begins another
// name of the list, so that the last prefix up to a name is the only one that it can begin with.
type list struct{ exact, prefixes []entry }

// find returns why pages do not depend on what has a name; empty if the list lacks the name. It
// does not allocate.
func (l *list) find(name string) string {
	if at, found := search(l.exact, name); found {
		return l.exact[at].reason
	}
	at, found := search(l.prefixes, name)
	if !found {
		at--
	}
	if at >= 0 && strings.HasPrefix(name, l.prefixes[at].name) {
		return l.prefixes[at].reason
	}
	return ""
}

func search(entries []entry, name string) (int, bool) {
	return slices.BinarySearchFunc(entries, name, func(e entry, name string) int { return cmp.Compare(e.name, name) })
}

// Cookie returns why pages do not depend on a cookie, such as "analytics: scripts in the browser
// set and read it"; empty if they may. Such a cookie neither makes a request bypass the cache nor
// reaches the renderer.
func Cookie(name string) string { return cookies.find(name) }

// Parameter returns why pages do not depend on a query parameter, as Cookie does. Such a
// parameter only records where a visitor came from. It is dropped from the key and from the
// renderer's request.
func Parameter(name string) string { return parameters.find(name) }
