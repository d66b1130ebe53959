package isr

import (
	"time"

	"github.com/facetheory/isr/internal/details"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/store"
)

// decided adds what a Cache-Status means to the reasons.
func (x *explainer) decided(s httpcache.Status) {
	d := meaning(s)
	x.out.Reasons = append(x.out.Reasons, Reason{Text: d.Meaning, Advice: d.Advice, RFC: d.RFC})
}

// meaning says what a Cache-Status means.
func meaning(s httpcache.Status) details.Detail {
	if d, ok := details.OfRefusal(s.Detail); ok {
		d.Meaning = "the response of the page must not be shared (" + s.Detail + "), because " + d.Meaning + ": each visitor's own request reaches the origin"
		return d
	}
	if d, ok := details.Of(s.Detail); ok {
		return d
	}
	switch {
	case s.Forward == httpcache.ForwardMethod, s.Forward == httpcache.ForwardRequest:
		d, _ := details.Of(s.Forward)
		return d
	case s.Hit:
		return details.Detail{Meaning: "the page is fresh", RFC: "RFC 9111, section 4.2"}
	case s.Stored:
		return details.Detail{Meaning: "the new page is stored", RFC: "RFC 9111, section 3"}
	}
	return details.Detail{Meaning: "the request reaches the origin"}
}

// state says what a page in memory is worth, and why.
func (x *explainer) state(p *page.Page) string {
	now := x.h.c.now()
	state, _ := x.h.judge(nil, p, now)
	return worth(&p.Entry, x.h.c.node.Purges(nil, p, now), state, now)
}

// judged adds the reason for the state of a page that is served.
func (x *explainer) judged(p *page.Page, state store.State) {
	now := x.h.c.now()
	if text := worth(&p.Entry, x.h.c.node.Purges(nil, p, now), state, now); text != "fresh" {
		x.Because("the page is "+text, "RFC 9111, section 4.2")
	}
}

// stored adds the reasons for the state of an entry in the store.
func (x *explainer) Stored(rec store.Record, state store.State, now time.Time) {
	e := rec.Entry
	switch {
	case rec.Malformed != nil:
		x.Because("its row in the store cannot be read, and counts as missing: "+rec.Malformed.Error(), "")
	case e == nil:
		x.Because("the store has no such page", "RFC 9111, section 4")
	case e.Withdrawn:
		x.Because("the origin has withdrawn the page: it said that the page is gone, or must no longer be shared", "RFC 9111, section 4.4")
	default:
		x.Because("the page in the store is "+worth(e, rec.Purges, state, now), "RFC 9111, section 4.2")
	}
	if e != nil && e.Foreign {
		x.Because("another service wrote the page, so that the stale window of the route applies to it", "")
	}
}

// worth says what an entry is worth, and why.
func worth(e *store.Entry, purges store.PurgeState, state store.State, now time.Time) string {
	switch state {
	case store.Purged:
		return "purged hard, and must not be served"
	case store.Fresh:
		if !now.Before(e.FreshUntil()) {
			return "pinned, so that it does not age"
		}
		return "fresh"
	case store.Missing:
		return "withdrawn"
	}
	switch {
	case e.CoveredBy(purges):
		return state.String() + ", because it was purged"
	case e.Build < purges.Build:
		return state.String() + ", because an older build of the site made it"
	case now.Before(e.FreshUntil()):
		return state.String() + ", because the clock of its writer was ahead, or its purges are not known"
	}
	return state.String() + ": its freshness window has ended " + now.Sub(e.FreshUntil()).Round(time.Second).String() + " ago"
}
