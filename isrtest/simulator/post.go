package simulator

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/facetheory/isr/store"
)

// A post is an unsafe request for a page, whose answer says that the page has changed.
type post struct {
	life     *life
	page     *page
	began    time.Time
	follows  bool      // another one, or another purge of the page, may have delayed its purge; owned by the driver
	changed  time.Time // when the origin answered; zero before; guarded by world.mu
	answered time.Time // when its visitor was answered; owned by the driver
}

// Bounds of the purge after an unsafe request, which begins at most a minute after the last purge of
// the page, of any kind and by any process, at any pace.
const (
	// followTime is how long after a purge the one of the next unsafe request may wait for it.
	followTime = time.Minute + 30*time.Second
	// purgeTime is how long it takes then, if no call fails.
	purgeTime = time.Minute + 20*time.Second
)

// post sends an unsafe request for a page.
func (w *world) post(l *life, p *page) {
	if w.pace.ordered() && !l.mayAssert(p) {
		return
	}
	seen := l.pages[p]
	w.visitors++
	v := &visitor{number: w.visitors, life: l, page: p, header: make(http.Header)}
	changes := &post{life: l, page: p, began: time.Now()}
	changes.follows = w.purgedSince(p, time.Now().Add(-followTime), nil)
	for _, other := range seen.posts {
		changes.follows = changes.follows || other.answered.IsZero() || time.Since(other.answered) < followTime
	}
	seen.posts = append(seen.posts, changes)
	seen.asserting++
	l.asking++
	w.log("request to %s: post %s", l.name, p.path)
	r := p.request(context.WithValue(context.Background(), postKey{}, changes))
	r.Method = http.MethodPost
	w.ended.Go(func() {
		l.handler.ServeHTTP(v, r)
		w.happened(event{kind: posted, life: l, page: p, visitor: v, post: changes})
	})
}

// postKey is the key of a post in the context of its request, which reaches the origin.
type postKey struct{}

// answerPost is the origin's answer to an unsafe request: from now on its page is another one.
func (o *origin) answerPost(w http.ResponseWriter, changes *post) {
	world := o.life.w
	world.noteReload(o.life, changes.page) // the copies in memory are dropped at once
	world.mu.Lock()
	changes.changed = time.Now()
	world.mu.Unlock()
	w.WriteHeader(http.StatusNoContent) // returns after the purge
}

// checkPosted records the end of an unsafe request. One whose purge may have failed has no
// effect that other visitors can rely on.
func (w *world) checkPosted(e event) {
	seen := e.life.pages[e.page]
	seen.asserting--
	e.life.asking--
	e.post.answered = e.at
	e.post.follows = e.post.follows || w.purgedSince(e.page, e.post.began, e.life)
	w.log("%s: posting %s: %d", e.life.name, e.page.path, e.visitor.status)
	if e.visitor.status != http.StatusNoContent {
		w.violate("an unsafe request is passed through", "%s answered a post with %d", e.life.name, e.visitor.status)
	}
	if w.isRendering(e.page) {
		w.counts["unsafe request during a render"]++
	}
	if !e.post.follows && w.rng.IntN(2) == 0 {
		w.first = e.post
		w.visitIfMay(e.life, e.page)
	}
}

// mayFollow reports whether an unsafe request can be sent so soon after another one that it waits
// for its turn to purge, and so late that the page is being rendered again.
func (w *world) mayFollow() bool {
	c := w.first
	if c == nil || time.Since(c.answered) > w.pace.of(time.Second) || c.life.isDead() || c.life.frozen {
		return false
	}
	for _, rd := range c.life.pages[c.page].rendered {
		if rd.began.After(c.answered) {
			return true
		}
	}
	return false
}

// follow sends an unsafe request soon after another one.
func (w *world) follow() {
	c := w.first
	w.first = nil
	w.counts["unsafe request soon after another one"]++
	w.post(c.life, c.page)
}

// holds reports whether a page that was rendered before an unsafe request must not be served to
// visitors that come now to the same process.
func (c *post) holds(now time.Time) bool {
	switch {
	case c.answered.IsZero(), c.follows && now.Sub(c.answered) < purgeTime:
		return false
	case c.life.lastFailure().After(c.began.Add(-outageTail)), c.life.lastRefusal().After(c.began), c.life.thawed.After(c.began):
		return false // its purge may have failed, or may still be repeated
	}
	return !c.page.wasPinned(c.began.Add(-2 * MaxSkew))
}

// wasPinned reports whether a page was pinned at or after an instant: an unsafe request does not
// purge it then.
func (p *page) wasPinned(since time.Time) bool {
	for _, g := range p.history {
		if g.meta != nil && g.pinned >= since.Unix() {
			return true
		}
	}
	return false
}

// checkChanged: after an unsafe request was answered, no visitor of the same process gets what was
// rendered before the origin had answered it, unless its purge failed. Its effect on the other
// processes is the effect of any purge.
func (w *world) checkChanged(v *visitor, content string) {
	began, known := v.page.renderedAt[content]
	if !known {
		return
	}
	for _, c := range v.posts {
		w.mu.Lock()
		changed := c.changed
		w.mu.Unlock()
		if w.counts["judged after an unsafe request"]++; began.Before(changed) && c.holds(v.began) {
			w.violate("a page that an unsafe request changed is not served", "%s got %s of %s, rendered at %v, and the origin answered a post at %v",
				v.name, content, v.page.path, began.Sub(w.began), changed.Sub(w.began))
		}
	}
}

// postsThatHold returns the unsafe requests whose effect a visitor must see.
func (v *visitor) postsThatHold() (all []*post) {
	for _, c := range v.life.pages[v.page].posts {
		if c.holds(v.began) {
			all = append(all, c)
		}
	}
	return all
}

// purgedSince reports whether a purge of a page was in progress at or after an instant, by anyone; if own
// is not nil, other than after an unsafe request to that process.
func (w *world) purgedSince(p *page, since time.Time, own *life) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !p.purged.Before(since) {
		return true
	}
	for l, at := range p.purgedBy {
		if l != own && !at.Before(since) {
			return true
		}
	}
	return false
}

// notePurging records that a purge that may cover any page begins, or ends.
func (w *world) notePurging() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.pages {
		p.purged = time.Now()
	}
}

// Purge implements [store.PurgeStore].
func (m *witness) Purge(ctx context.Context, p store.Purge) (store.Receipt, error) {
	w := m.life.w
	note := func() { // at the begin, for who reads its rows before it returns; at the end, perhaps also if it has failed
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, of := range w.pages {
			if slices.ContainsFunc(p.Targets, func(t store.PurgeTarget) bool { return t.Kind != store.PurgeKey || t.Value == of.key.Text }) {
				of.purgedBy[m.life] = time.Now()
			}
		}
	}
	note()
	r, err := m.MetaStore.Purge(ctx, p)
	note()
	for _, p := range w.pages {
		w.noteReload(m.life, p)
	}
	m.life.noteAnswered()
	if err != nil {
		w.gate.mu.Lock()
		m.life.unpurged = time.Now()
		w.gate.mu.Unlock()
	}
	return r, err
}

// lastRefusal returns when a purge by the process last failed.
func (l *life) lastRefusal() time.Time {
	l.w.gate.mu.Lock()
	defer l.w.gate.mu.Unlock()
	return l.unpurged
}
