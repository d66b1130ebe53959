package page

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

// Remaining stands for the remaining freshness in a field of [DownstreamControl].
const Remaining = "remaining"

// A lifetimeField is the value of a field of [DownstreamControl].
type lifetimeField struct {
	fixed         []string // nil: there is no such field, or it has the remaining freshness
	before, after string   // it, between these texts; both are empty if fixed is set
}

func newLifetimeField(value string) lifetimeField {
	before, after, found := strings.Cut(value, Remaining)
	switch {
	case value == "":
		return lifetimeField{}
	case !found:
		return lifetimeField{fixed: []string{value}}
	}
	return lifetimeField{before: before, after: after}
}

// at returns the field with this remaining freshness; nil if there is none.
func (f *lifetimeField) at(left time.Duration) []string {
	if f.before == "" {
		return f.fixed
	}
	return []string{f.before + strconv.FormatInt(int64(max(left, 0)/time.Second), 10) + f.after}
}

// lifetimes are the fields that state how long downstream caches may keep a page. They replace
// the page's own fields. They are shared by responses: nothing may append to them.
type lifetimes struct {
	browsers, cdn, surrogate []string
	ageless                  bool // lifetimes count from when the page is served
}

// purgedControl is the Cache-Control of a page that is stale although its freshness window
// has not ended, because of a purge. With the page's own, a cache in front, which has just
// dropped its copy for the same purge, would take this one as fresh.
const purgedControl = "max-age=0, must-revalidate"

// pinnedControl is the Cache-Control of a page that is pinned beyond its freshness
// window. With the page's own, downstream caches would treat it as stale, or, without its
// age, keep it long after it was unpinned.
const pinnedControl = "max-age=10"

var (
	noAge        = []string{"0"}
	outdated     = &lifetimes{browsers: []string{purgedControl}}
	beyondWindow = &lifetimes{browsers: []string{pinnedControl}, ageless: true}
)

// lifetimes returns what replaces the fields of a page in a state; nil for nothing. pinned: it is
// fresh because of a pin. What this cache tells of a page that is pinned or purged takes
// precedence over what the route says.
func (p *Page) lifetimes(as *View, now time.Time, state store.State, pinned bool) *lifetimes {
	left := p.Entry.FreshUntil().Sub(now)
	controlled := as.controls() && p.Status() < http.StatusBadRequest
	switch {
	case pinned:
		return beyondWindow
	case state != store.Fresh && (left > 0 || controlled):
		return outdated
	case controlled:
		return &lifetimes{browsers: as.browsers.at(left), cdn: as.cdn.at(left), surrogate: as.surrogate.at(left), ageless: true}
	}
	return p.brief
}

// briefly returns what replaces the fields of an error response whose lifetime is meant for a file
// (see [httpcache.BriefError]); nil if nothing does.
func briefly(status int, h http.Header) *lifetimes {
	control := httpcache.BriefError(status, h)
	if control == nil {
		return nil
	}
	return &lifetimes{browsers: control, cdn: h["Cdn-Cache-Control"], surrogate: h["Surrogate-Control"]}
}

// LimitError replaces the fields of an error response whose lifetime is meant for a file.
func LimitError(status int, h http.Header) {
	if instead := briefly(status, h); instead != nil {
		instead.set(h)
	}
}

// set sets the fields in a header. A page whose lifetimes count from now has no age: neither Age nor
// its Date, which the server replaces by the current one.
func (l *lifetimes) set(h http.Header) {
	h["Cache-Control"] = l.browsers
	delete(h, "Expires")
	setOrDelete(h, "Cdn-Cache-Control", l.cdn)
	setOrDelete(h, "Surrogate-Control", l.surrogate)
	if l.ageless {
		h["Age"] = noAge
		delete(h, "Date")
	}
}

func setOrDelete(h http.Header, name string, values []string) {
	if values == nil {
		delete(h, name)
		return
	}
	h[name] = values
}
