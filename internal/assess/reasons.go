package assess

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/facetheory/isr/internal/canonical"
)

const (
	// maxReasonPages is how many pages of a reason are counted, and shownPages how many are shown.
	maxReasonPages = 256
	shownPages     = 3
	// maxShown is the length of the longest page that is shown, in bytes.
	maxShown = 100
	// maxShownQuery is how many parameters of a page are shown.
	maxShownQuery = 4
)

// reasons are why requests were not answered from the cache. They are words of closed sets.
type reasons map[string]*reason

// A reason counts the requests, and those of its most frequent pages.
type reason struct {
	requests float64
	pages    map[string]float64 // lower bounds, by the algorithm of Misra and Gries
}

// add counts requests for a page. A nil map stays empty.
func (r reasons) add(word, page string, n float64) {
	if r == nil {
		return
	}
	if word == "" {
		word = "other"
	}
	of := r[word]
	if of == nil {
		of = &reason{pages: make(map[string]float64)}
		r[word] = of
	}
	of.requests += n
	if _, known := of.pages[page]; known || len(of.pages) < maxReasonPages {
		of.pages[page] += n
		return
	}
	for other, count := range of.pages {
		if count <= n {
			delete(of.pages, other)
		} else {
			of.pages[other] = count - n
		}
	}
}

// top returns the most frequent pages, as the report shows them.
func (r *reason) top() (pages []string) {
	all := slices.SortedFunc(maps.Keys(r.pages), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.pages[b], r.pages[a]), cmp.Compare(a, b))
	})
	for _, page := range all {
		if page = shownPage(page); !slices.Contains(pages, page) {
			pages = append(pages, page)
		}
		if len(pages) == shownPages {
			break
		}
	}
	return pages
}

// shownPage returns a page without the values of its query, which may be secret or of one visitor, in one line and
// bounded.
func shownPage(text string) string {
	page, query, found := strings.Cut(text, "?")
	if found {
		var names []string
		for pair := range strings.SplitSeq(query, "&") {
			name, _ := splitPair(pair)
			if names = append(names, name+"=…"); len(names) == maxShownQuery {
				break
			}
		}
		page += "?" + strings.Join(names, "&")
	}
	return cut(canonical.Printable(page), maxShown)
}

// cut returns the beginning of a text, of at most so many bytes.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
