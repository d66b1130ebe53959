package simulator

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// A visitor is one request for a page.
type visitor struct {
	number int
	name   string
	life   *life
	page   *page
	began  time.Time     // true time
	floor  int           // the oldest generation that may be served; -1: any
	purged int64         // the latest hard purge of the page that the process has read
	silent time.Duration // the time since the process had last read the log
	cursor int64         // the process has applied the log up to this sequence, or read the marks after it
	own    int           // how many of its own purges were acknowledged

	posts  []*post // the unsafe requests whose effect it must see
	minSeq int64   // the receipt that it demands; 0 if it demands none
	known  int64   // the sequence of the log when it demanded that

	inputs string // of a request with an idempotency key

	ended bool // the driver has processed the response

	// The response; owned by the visitor's goroutine until ended.
	status int
	header http.Header
	body   bytes.Buffer
	left   bool // it left without a response
	broken bool // the connection, in the middle of the response
}

// visit sends a visitor to a page of a process. Some leave soon.
func (w *world) visit(l *life, p *page) *visitor {
	w.visitors++
	seen := l.pages[p]
	seen.asked = true
	seen.waiting++
	v := &visitor{
		number: w.visitors, name: fmt.Sprintf("visitor%d", w.visitors), life: l, page: p, began: time.Now(), silent: time.Since(l.log.since),
		floor: max(seen.born, seen.served), purged: w.knownPurge(l, p), header: make(http.Header),
	}
	v.floor, v.cursor, v.own = max(v.floor, l.floor(p)), max(l.log.cursor, l.born), len(l.own)
	v.posts = v.postsThatHold()
	ctx, cancel := context.WithCancel(context.Background())
	if w.rng.IntN(20) == 0 {
		// Never at the instant at which a call times out.
		ctx, cancel = context.WithTimeout(context.Background(), w.pace.of(time.Duration(1+w.rng.IntN(8))*time.Second)+tick/2)
	}
	r := p.request(ctx)
	r.Header.Set(visitorHeader, v.name)
	w.log("%s asks %s for %s", v.name, l.name, p.path)
	w.drawReceipt(v, r)
	w.ended.Go(func() {
		defer cancel()
		v.request(l.handler, r)
		v.left = v.status == 0
		w.happened(event{kind: answered, life: l, page: p, visitor: v})
	})
	return v
}

// request gets the response, or a part of it.
func (v *visitor) request(h http.Handler, r *http.Request) {
	defer func() {
		switch got := recover(); got {
		case nil:
		case http.ErrAbortHandler: //nolint:errorlint // as net/http does
			v.broken = true
		default:
			panic(got)
		}
	}()
	h.ServeHTTP(v, r)
	// A visitor that leaves in the middle of a stream has a part of it.
	v.broken = r.Context().Err() != nil && strings.Contains(v.header.Get("Cache-Status"), "fwd=")
}

// visitIfMay is visit, unless the seed would not determine the result.
func (w *world) visitIfMay(l *life, p *page) {
	if w.mayVisit(l, p) {
		w.visit(l, p)
	}
}

// mayVisit reports whether the seed determines the result of a visit now.
func (w *world) mayVisit(l *life, p *page) bool { return !w.pace.ordered() || l.mayVisit(p) }

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

// checkAnswer checks the response to a visitor.
func (w *world) checkAnswer(v *visitor, at time.Time) {
	// Which of several collapsed requests was first is not determined.
	how := strings.ReplaceAll(v.header.Get("Cache-Status"), "; collapsed", "")
	v.ended = true
	v.life.pages[v.page].waiting--
	if v.minSeq > 0 {
		w.checkReceived(v)
	}
	if v.left {
		w.log("%s left", v.name)
		return
	}
	if v.broken {
		w.log("%s got a part: %s", v.name, how)
		w.counts["broken stream"]++
		return
	}
	content, whole := contentOf(v.body.Bytes())
	w.log("%s got %d %s: %s", v.name, v.status, content, how)
	w.counts[fmt.Sprint("status ", v.status)]++
	switch {
	case v.status != http.StatusOK:
		if w.profile.calm() && !w.outlasted(v, how, at) {
			w.violate("without faults every visitor gets the page", "%s got %d: %s", v.name, v.status, how)
		}
		return
	case v.body.Len() == 0, strings.Contains(how, "fwd=bypass"), content == v.name:
		w.checkPassed(v, content)
		return
	case !whole:
		w.violate("no reader sees a mixture", "%s got a body that begins like %s and differs", v.name, content)
	case !strings.HasPrefix(content, v.page.path+"@"):
		w.violate("a reader gets the requested page", "%s asked for %s and got %s", v.name, v.page.path, content)
	}
	w.checkJoined(v, content, how)
	w.checkSince(v, content)
	w.checkChanged(v, content)
	if strings.Contains(how, "detail=unpublished") || isUnstored(how) {
		return // rendered for the waiters, and not stored
	}
	w.checkServed(v, content, how)
	if at.Equal(v.began) && w.pace.ordered() && !v.life.pages[v.page].forcing && strings.Contains(how, "; hit") && isFresh(how) {
		w.noteKept(v, content)
	}
}

// outlasted reports whether a visitor has waited for as long as one render may take, and the page is being
// rendered for the second time since: the page of the first render had expired when it was published.
func (w *world) outlasted(v *visitor, how string, at time.Time) bool {
	if !strings.HasSuffix(how, "detail=timeout") || at.Sub(v.began) < w.pace.of(renderTimeout) {
		return false
	}
	for _, n := range w.nodes {
		for _, rd := range n.life.pages[v.page].rendered {
			if rd.began.After(v.began) && !w.isOver(rd) {
				return true
			}
		}
	}
	return false
}

// checkJoined: a visitor does not get a page whose render began before a purge that its
// process knew when it came.
func (w *world) checkJoined(v *visitor, content, how string) {
	seq, known := v.page.rendered[content]
	if !known || !strings.Contains(how, "; stored") && !strings.Contains(how, "detail=unpublished") && !isUnstored(how) {
		return
	}
	if g := v.page.find(content); g != nil {
		seq = max(seq, g.purgeSeq) // a rollback makes a generation newer than soft purges
	}
	if covered, _ := v.knownPurges(tagOf(content)); seq < covered {
		w.violate("a visitor does not join a render from before a purge", "%s got %s, rendered at sequence %d, and %s knew of its purge at %d", v.name, content, seq, v.life.name, covered)
	}
}

// checkPassed: a response that passes through is rendered for this visitor only.
func (w *world) checkPassed(v *visitor, content string) {
	if content != v.name && v.body.Len() > 0 {
		w.violate("what passes through is the visitor's own", "%s got the response to %s", v.name, content)
	}
	if w.profile.calm() {
		w.violate("without faults every visitor gets the page", "%s was passed through", v.name)
	}
}

// checkServed: a cache serves a generation that META had, within its windows, and not one older than
// the process has seen.
func (w *world) checkServed(v *visitor, content, how string) {
	g := v.page.find(content)
	if w.streamed(v, content, g) && strings.Contains(how, "; stored") && !w.profile.calm() {
		w.counts["streamed and not published"]++ // it was being stored when its header was sent
		return
	}
	if g == nil {
		w.violate("what is served was published", "%s got %s, which META never was: %s", v.name, content, how)
		return
	}
	if header := v.header.Get("X-Content"); g.ours && (header != content || v.header.Get("Etag") != etagOf(content)) {
		w.violate("no reader sees a mixture", "%s got the body %s with the headers of %s and the ETag %s", v.name, content, header, v.header.Get("Etag"))
	}
	if g.index < v.floor {
		w.violate("no reader goes back", "%s got %s, and before it asked, %s had started with, or served, generation %d", v.name, w.generationName(g), v.life.name, v.floor)
	}
	w.checkBound(v, g, how)
	if strings.Contains(how, "; stored") {
		// Rendered for the waiters. It may have expired during a slow render.
		w.noteServed(v, g)
		return
	}
	now := v.began.Add(v.life.node.skew) // a lookup may take longer than the rest of its window
	if until := w.servableUntil(v.page, content); now.After(until) && !w.replacesFailure(v.page, content, how) {
		w.violate("no page is served after its stale window", "%s got %s %v late", v.name, w.generationName(g), now.Sub(until))
	}
	covered, purged := v.knownPurges(g.tag)
	if purged = max(purged, v.purged); g.ours && g.purgeSeq < purged {
		w.violate("no purged page is served", "%s got %s of sequence %d, and %s knew of its purge at %d", v.name, w.generationName(g), g.purgeSeq, v.life.name, purged)
	}
	if g.ours && g.purgeSeq < covered && strings.Contains(how, "; hit") && isFresh(how) {
		w.violate("a purged page is not served as fresh", "%s got %s of sequence %d, and %s knew of its purge at %d", v.name, w.generationName(g), g.purgeSeq, v.life.name, covered)
	}
	if v.own > 0 && covered > 0 {
		w.counts["judged after an own purge"]++
	}
	w.noteServed(v, g)
}

// streamed reports whether a content was rendered after META last had it, which is the state g, or nil for
// never: nothing of that render was published. After a rollback, the origin may render the content that was
// current before.
func (w *world) streamed(v *visitor, content string, g *generation) bool {
	if g == nil {
		_, rendered := v.page.rendered[content]
		return rendered
	}
	rd := v.life.pages[v.page].renderingOf(content)
	return rd != nil && rd.step >= g.step
}

// isUnstored reports whether a Cache-Status says that the page was rendered while a store had failed. A hit
// with that detail is an older page, served because the render failed.
func isUnstored(how string) bool {
	return strings.Contains(how, "fwd=") && strings.Contains(how, "detail=store-error")
}

// isFresh reports whether a Cache-Status says that the response is fresh.
func isFresh(how string) bool {
	return !strings.Contains(how, "detail=") || strings.HasSuffix(how, "detail=pinned")
}

// servableUntil returns the end of the stale window of a content: the latest of all generations that
// had it.
func (w *world) servableUntil(p *page, content string) time.Time {
	var until time.Time
	for _, g := range p.history {
		if g.meta == nil || g.content != content {
			continue
		}
		stale := g.stale
		if !g.ours {
			stale = int64(max(w.route.Stale, 0) / time.Second)
		}
		for _, t := range []time.Time{g.freshUntil().Add(time.Duration(stale) * time.Second), time.Unix(g.pinned, 0)} {
			if t.After(until) {
				until = t
			}
		}
	}
	return until
}

// replacesFailure reports whether a page may be served when its render fails: a page that was pinned
// may, however old it is, until a render succeeds, and is marked as such.
func (w *world) replacesFailure(p *page, content, how string) bool {
	if isFresh(how) || strings.HasSuffix(how, "detail=stale") {
		return false
	}
	for _, g := range p.history {
		if g.meta != nil && g.content == content && g.pinned != 0 {
			w.counts["pinned page instead of a failure"]++
			return true
		}
	}
	return false
}

// noteServed: from now on this process must not serve older generations. If several have that content,
// as after a rollback, it may have been the first.
func (w *world) noteServed(v *visitor, g *generation) {
	seen := v.life.pages[v.page]
	for _, first := range v.page.history[max(seen.served, 0):] {
		if first.meta != nil && first.content == g.content {
			seen.served = max(seen.served, first.index)
			return
		}
	}
}
