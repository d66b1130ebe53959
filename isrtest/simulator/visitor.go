package simulator

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// A visitor asks for a page once.
type visitor struct {
	number  int
	name    string
	life    *life
	page    *page
	began   time.Time     // true time
	floor   int           // no generation before this one may be served; -1: any
	purged  int64         // the hard purge that the process cannot but know
	silent  time.Duration // for how long the process had not read the log
	covered int64         // the purge, hard or not, that it knows by the log

	inputs string // of who asks for more than a page

	ended bool // the driver has seen the answer

	// Of the answer; the visitor's own until then.
	status int
	header http.Header
	body   bytes.Buffer
	left   bool // and did not wait for one
}

// visit sends a visitor to a page of a process. Some do not wait for long.
func (w *world) visit(l *life, p *page) *visitor {
	w.visitors++
	seen := l.pages[p]
	seen.asked = true
	seen.waiting++
	v := &visitor{
		number: w.visitors, name: fmt.Sprintf("visitor%d", w.visitors), life: l, page: p, began: time.Now(), silent: time.Since(l.log.since),
		floor: max(seen.born, seen.served), purged: w.knownPurge(l, p), header: make(http.Header),
	}
	floor, covered, hard := l.told(p)
	v.floor, v.covered, v.purged = max(v.floor, floor), covered, max(v.purged, hard)
	ctx, cancel := context.WithCancel(context.Background())
	if w.rng.IntN(20) == 0 {
		// Never at the very instant at which a call times out.
		ctx, cancel = context.WithTimeout(context.Background(), w.pace.of(time.Duration(1+w.rng.IntN(8))*time.Second)+tick/2)
	}
	r := p.request(ctx)
	r.Header.Set(visitorHeader, v.name)
	w.log("%s asks %s for %s", v.name, l.name, p.path)
	w.ended.Go(func() {
		defer cancel()
		l.handler.ServeHTTP(v, r)
		v.left = v.status == 0
		w.happened(event{kind: answered, life: l, page: p, visitor: v})
	})
	return v
}

// visitIfMay is visit, unless the seed could not tell what comes of it.
func (w *world) visitIfMay(l *life, p *page) {
	if !w.pace.ordered() || l.mayVisit(p) {
		w.visit(l, p)
	}
}

// Header implements [http.ResponseWriter].
func (v *visitor) Header() http.Header { return v.header }

// WriteHeader implements [http.ResponseWriter].
func (v *visitor) WriteHeader(status int) {
	if v.status == 0 && status >= http.StatusOK {
		v.status = status
	}
}

// Write implements [http.ResponseWriter].
func (v *visitor) Write(b []byte) (int, error) {
	v.WriteHeader(http.StatusOK)
	return v.body.Write(b)
}

// checkAnswer holds what a visitor got against what it may get.
func (w *world) checkAnswer(v *visitor, at time.Time) {
	// What is said of collapsed requests depends on who of several was first.
	how := strings.ReplaceAll(v.header.Get("Cache-Status"), "; collapsed", "")
	v.ended = true
	v.life.pages[v.page].waiting--
	if v.left {
		w.log("%s left", v.name)
		return
	}
	content, whole := contentOf(v.body.Bytes())
	w.log("%s got %d %s: %s", v.name, v.status, content, how)
	w.counts[fmt.Sprint("status ", v.status)]++
	switch {
	case v.status != http.StatusOK:
		if w.profile.calm() {
			w.violate("without faults every visitor gets the page", "%s got %d: %s", v.name, v.status, how)
		}
		return
	case v.body.Len() == 0, strings.Contains(how, "fwd=bypass"), content == v.name:
		w.checkPassed(v, content)
		return
	case !whole:
		w.violate("no reader sees a mixture", "%s got a body that begins as %s and is another", v.name, content)
	case !strings.HasPrefix(content, v.page.path+"@"):
		w.violate("a reader gets the page it asked for", "%s asked for %s and got %s", v.name, v.page.path, content)
	}
	if strings.Contains(how, "detail=unpublished") || strings.Contains(how, "fwd=") && strings.Contains(how, "detail=store-error") {
		return // rendered for those who waited, and not stored
	}
	w.checkServed(v, content, how)
	if at.Equal(v.began) && w.pace.ordered() && !v.life.pages[v.page].forcing && strings.Contains(how, "; hit") && isFresh(how) {
		w.noteKept(v, content)
	}
}

// checkPassed: what passes through is rendered for this visitor and nobody else.
func (w *world) checkPassed(v *visitor, content string) {
	if content != v.name && v.body.Len() > 0 {
		w.violate("what passes through is the visitor's own", "%s got that of %s", v.name, content)
	}
	if w.profile.calm() {
		w.violate("without faults every visitor gets the page", "%s was passed through", v.name)
	}
}

// checkServed: what a cache serves is a generation that META had, not one that
// the process cannot have from before, and within its windows.
func (w *world) checkServed(v *visitor, content, how string) {
	g := v.page.find(content)
	if g == nil {
		w.violate("what is served was published", "%s got %s, which META never was: %s", v.name, content, how)
		return
	}
	if header := v.header.Get("X-Content"); g.ours && (header != content || v.header.Get("Etag") != etagOf(content)) {
		w.violate("no reader sees a mixture", "%s got the body %s with the header of %s and the etag %s", v.name, content, header, v.header.Get("Etag"))
	}
	if g.index < v.floor {
		w.violate("no reader goes back", "%s got %s, and before it asked, %s had started with, or served, generation %d", v.name, w.generationName(g), v.life.name, v.floor)
	}
	w.checkBound(v, g, how)
	if strings.Contains(how, "; stored") {
		// Rendered for those who waited, though it may have taken so long that
		// it had expired when it came.
		w.noteServed(v, g)
		return
	}
	now := v.began.Add(v.life.node.skew).Unix() // looking for a page may take it past its end
	if until := w.servableUntil(v.page, content); now > until && !w.replacesFailure(v.page, content, how) {
		w.violate("no reader gets what is older than its stale window", "%s got %s %d s after that", v.name, w.generationName(g), now-until)
	}
	if g.ours && g.purgeSeq < v.purged {
		w.violate("no reader gets what was purged", "%s got %s of sequence %d, and %s knew that %d had purged it", v.name, w.generationName(g), g.purgeSeq, v.life.name, v.purged)
	}
	if g.ours && g.purgeSeq < v.covered && strings.Contains(how, "; hit") && isFresh(how) {
		w.violate("what was purged is not served as fresh", "%s got %s of sequence %d, and %s had read in the log that %d has purged it", v.name, w.generationName(g), g.purgeSeq, v.life.name, v.covered)
	}
	w.noteServed(v, g)
}

// isFresh says of a Cache-Status that what was served is nothing less than fresh.
func isFresh(how string) bool {
	return !strings.Contains(how, "detail=") || strings.HasSuffix(how, "detail=pinned")
}

// servableUntil is the end of the stale window of a content: the latest of those
// of all generations that had it.
func (w *world) servableUntil(p *page, content string) int64 {
	var until int64
	for _, g := range p.history {
		if g.meta == nil || g.content != content {
			continue
		}
		stale := g.stale
		if !g.ours {
			stale = int64(max(w.route.Stale, 0) / time.Second)
		}
		until = max(until, g.generatedAt+g.revalidate+stale, g.pinned)
	}
	return until
}

// replacesFailure: what was pinned is served in place of a failure, and marked so, until
// a render succeeds, however old it is.
func (w *world) replacesFailure(p *page, content, how string) bool {
	if isFresh(how) || strings.HasSuffix(how, "detail=stale") {
		return false
	}
	for _, g := range p.history {
		if g.meta != nil && g.content == content && g.pinned != 0 {
			w.counts["pinned page in place of a failure"]++
			return true
		}
	}
	return false
}

// noteServed: from now on this process has no excuse for what is older. Of several
// generations with that content, as after a rollback, it may have been the first.
func (w *world) noteServed(v *visitor, g *generation) {
	seen := v.life.pages[v.page]
	for _, first := range v.page.history[max(seen.served, 0):] {
		if first.meta != nil && first.content == g.content {
			seen.served = max(seen.served, first.index)
			return
		}
	}
}
