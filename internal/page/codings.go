package page

import (
	"github.com/facetheory/isr/internal/coding"
	"github.com/facetheory/isr/internal/httpcache"
)

// codingOverhead is the memory of a coding in addition to its content.
const codingOverhead = 288

// codings are what is known of the codings of a page's body. They are immutable. A nil *codings has none.
type codings struct {
	made   [httpcache.Identity]*representation // those in memory
	none   coding.Has                          // those that do not exist
	absent bool                                // there were none beside the body
}

func (c *codings) weight() int {
	n := 0
	if c != nil {
		for _, rep := range c.made {
			if rep != nil {
				n += codingOverhead + cap(rep.body)
			}
		}
	}
	return n
}

// known returns which codings are in memory, which do not exist, and whether there were none beside the
// stored body.
func (c *codings) known() (made, none coding.Has, absent bool) {
	if c == nil {
		return made, none, false
	}
	for i, rep := range c.made {
		made[i] = rep != nil
	}
	return made, c.none, c.absent
}

// KnownCodings returns what is known of the codings of the page's body: which are in memory, which do not
// exist, and whether there were none beside the stored body.
func (p *Page) KnownCodings() (made, none coding.Has, absent bool) { return p.coded.Load().known() }

// SetCodings records what is known of the codings of a page that has just been made: which do not exist, and
// whether there are none beside the stored body.
func (p *Page) SetCodings(none coding.Has, absent bool) {
	p.coded.Store(&codings{none: none, absent: absent})
}

// SetCoding records the codings beside the stored body for a page that has just been made: which do not
// exist, and the content of one of them; nil if it was not read.
func (p *Page) SetCoding(none coding.Has, c httpcache.Coding, content []byte) {
	have := &codings{none: none}
	if content != nil {
		have.made[c] = p.coding(c, content, int64(len(content)))
	}
	p.coded.Store(have)
}

// DescribeCodings records the lengths of the codings beside the stored body, 0 of one that does not exist,
// for a page that is answered without them: HEAD, or 304.
func (p *Page) DescribeCodings(lengths [httpcache.Identity]int64) {
	have := new(codings)
	for c, n := range lengths {
		if have.none[c] = n == 0; n > 0 {
			have.made[c] = p.coding(httpcache.Coding(c), nil, n)
		}
	}
	p.coded.Store(have)
}

// AddCodings adds codings to a page in memory, and which ones do not exist.
func (p *Page) AddCodings(none coding.Has, set coding.Set) {
	for {
		have, next := p.coded.Load(), new(codings)
		if have != nil {
			*next = *have
		}
		for c := range httpcache.Identity {
			next.none[c] = next.none[c] || none[c]
			if set[c] != nil {
				next.made[c] = p.coding(c, set[c], int64(len(set[c])))
			}
		}
		if p.coded.CompareAndSwap(have, next) {
			return
		}
	}
}

// CodingsStored records that there are codings beside the stored body now, so that the stub of the page
// says so once it is evicted.
func (p *Page) CodingsStored() {
	for have := p.coded.Load(); have != nil && have.absent; have = p.coded.Load() {
		next := *have
		next.absent = false
		if p.coded.CompareAndSwap(have, &next) {
			return
		}
	}
}

// represent returns the representation that a client gets, by its Accept-Encoding. It is on
// the hit path: it does not allocate. If the page has not the coding that the client prefers,
// View.Want asks for it.
func (p *Page) represent(as *View, lines []string) *representation {
	accept, have := httpcache.AcceptEncoding(lines), p.coded.Load()
	for c := httpcache.Brotli; have != nil && c < httpcache.Identity; c++ { // the common case
		if accept.Fully(c) && as.Codings[c] && !have.none[c] {
			if rep := have.made[c]; rep != nil {
				return rep
			}
			break
		}
	}
	made, none, _ := have.known()
	wanted := accept.Prefer(as.Codings.Without(none))
	if wanted == httpcache.Identity {
		return &p.plain
	}
	if made[wanted] {
		return have.made[wanted]
	}
	if as.Want != nil && p.nextCoding.Claim(p) {
		as.Want(p, wanted)
	}
	if got := accept.Prefer(as.Codings.And(made)); got != httpcache.Identity {
		return have.made[got]
	}
	return &p.plain
}

// Inherit takes over the codings of another page with the same body.
func (p *Page) Inherit(from *Page) {
	have := from.coded.Load()
	if have == nil || !p.Codable {
		return
	}
	own := &codings{none: have.none, absent: have.absent}
	for c, rep := range have.made {
		if rep != nil {
			own.made[c] = p.coding(httpcache.Coding(c), rep.body, rep.size)
		}
	}
	p.coded.Store(own)
}

// coding returns a representation of the page by a content of size bytes, which may be missing: then it is
// only described.
func (p *Page) coding(c httpcache.Coding, content []byte, size int64) *representation {
	rep := newRepresentation(httpcache.CodedETag(p.Entry.ETag, c.String()), content, size)
	rep.kind, rep.coding = c, []string{c.String()}
	return &rep
}
