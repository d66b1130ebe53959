package live

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

const (
	// maxTroubles bounds the failing pages that are remembered. Beyond it, the one that
	// failed longest ago is forgotten.
	maxTroubles = 1000
	// troubleFor is how long a page is remembered that was not rendered again.
	troubleFor = time.Hour
	// maxProblem bounds the text of an error, in bytes.
	maxProblem = 300
)

// A trouble is a page whose latest render failed.
type trouble struct {
	route               string
	since, last         time.Time
	count               int64
	outcome, reason, is string
}

// troubles are the failing pages.
type troubles struct {
	mu      sync.Mutex
	failing map[store.Key]*trouble // guarded by mu
}

// renderEnds notes how a render ended, and returns what is worth telling of it.
func (t *troubles) renderEnds(op isr.Operation, res isr.Result, now time.Time) (told []Happening) {
	tell := func(kind, text string) {
		told = append(told, Happening{At: now, Kind: kind, Key: op.Key.Text, Tenant: op.Key.Tenant, Route: op.Route, Reason: res.Reason, Text: text})
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.failing[op.Key]
	switch res.Outcome {
	case "failed", "rejected":
		if known == nil {
			t.makeRoomLocked(now)
			known = &trouble{route: op.Route, since: now}
			key := store.Key{Tenant: strings.Clone(op.Key.Tenant), Text: strings.Clone(op.Key.Text)}
			t.failing[key] = known
			tell("failing", op.Key.String()+" begins to fail: "+problem(res))
		}
		known.last, known.outcome, known.reason, known.is = now, res.Outcome, res.Reason, problem(res)
		known.count++
		if res.Outcome == "rejected" {
			tell("quarantine", "a generation of "+op.Key.String()+" was rejected: "+problem(res))
		}
	case "published", "unchanged", "unpublished":
		if known != nil {
			delete(t.failing, op.Key)
			tell("recovered", op.Key.String()+" can be rendered again")
		}
	}
	return told
}

// problem returns the error of a render as a text of one line.
func problem(res isr.Result) string {
	text := cmp.Or(res.Reason, res.Outcome)
	if res.Err != nil {
		text = res.Err.Error()
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
	if len(text) > maxProblem {
		text = strings.ToValidUTF8(text[:maxProblem], "") + "…"
	}
	return text
}

func (t *troubles) makeRoomLocked(now time.Time) {
	t.forgetLocked(now)
	if len(t.failing) < maxTroubles {
		return
	}
	var oldest store.Key
	for k, one := range t.failing {
		if least := t.failing[oldest]; least == nil || one.last.Before(least.last) {
			oldest = k
		}
	}
	delete(t.failing, oldest)
}

// forgetLocked forgets the pages that were not rendered for long.
func (t *troubles) forgetLocked(now time.Time) {
	for k, one := range t.failing {
		if now.Sub(one.last) > troubleFor {
			delete(t.failing, k)
		}
	}
}

// A FailingPage is a page whose latest render by this server failed.
type FailingPage struct {
	Key     string    `json:"key" doc:"Key of the page."`
	Tenant  string    `json:"tenant,omitempty" doc:"Tenant of the page, on a site with tenants."`
	Route   string    `json:"route,omitempty" doc:"Name of its route."`
	Since   time.Time `json:"since" doc:"When the first of these renders failed."`
	LastAt  time.Time `json:"last_at" doc:"When the latest failed."`
	Count   int64     `json:"count" doc:"How many failed since."`
	Outcome string    `json:"outcome" doc:"failed, or rejected (in quarantine)."`
	Reason  string    `json:"reason,omitempty" doc:"As the detail in Cache-Status."`
	Error   string    `json:"error" doc:"The latest error, at most 300 bytes."`
}

func (t *trouble) described(k store.Key) FailingPage {
	return FailingPage{
		Key: k.Text, Tenant: k.Tenant, Route: t.route, Since: t.since.UTC(), LastAt: t.last.UTC(), Count: t.count,
		Outcome: t.outcome, Reason: t.reason, Error: t.is,
	}
}

// Failing returns the failing pages, those that failed last first.
func (m *Monitor) Failing(now time.Time) []FailingPage {
	t := &m.troubles
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forgetLocked(now)
	all := make([]FailingPage, 0, len(t.failing))
	for k, one := range t.failing {
		all = append(all, one.described(k))
	}
	slices.SortFunc(all, func(a, b FailingPage) int { return cmp.Or(b.LastAt.Compare(a.LastAt), cmp.Compare(a.Key, b.Key)) })
	return all
}

// FailingPage returns the trouble of one page; ok is false if there is none.
func (m *Monitor) FailingPage(k store.Key) (page FailingPage, ok bool) {
	t := &m.troubles
	t.mu.Lock()
	defer t.mu.Unlock()
	if one := t.failing[k]; one != nil {
		return one.described(k), true
	}
	return page, false
}
