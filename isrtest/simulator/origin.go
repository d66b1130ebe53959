package simulator

import (
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/facetheory/isr/internal/backoff"
)

// renderTimeout bounds one rendering of a cache.
const renderTimeout = 60 * time.Second

// An origin renders the pages of a world for one process.
type origin struct{ life *life }

// A rendering is one request to the origin for a cacheable page.
type rendering struct {
	page    *page
	life    *life
	number  int
	step    int   // at which it began
	seq     int64 // the purge sequence then
	knew    int64 // the sequence up to which its process had applied the log then
	content string
	began   time.Time // true time
	asked   bool      // it has a condition
	lease   *grant    // the lease it runs under, if known; owned by the driver
	over    bool      // guarded by world.mu
	same    time.Time // guarded by world.mu: when it was answered by 304; zero if it was not
}

// visitorHeader names a visitor. It is in no cache key, so the origin sees it only in requests
// that pass through.
const visitorHeader = "X-Visitor"

func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if changes, isPost := r.Context().Value(postKey{}).(*post); isPost {
		o.answerPost(w, changes)
		return
	}
	if visitor := r.Header.Get(visitorHeader); visitor != "" {
		if world := o.life.w; world.profile.failures && world.pace.grudges && !world.recovering() {
			w.Header().Set("Cache-Control", "no-store") // stays uncacheable
		}
		w.Header().Set("X-Content", visitor)
		_, _ = w.Write(bodyOf(visitor)) // a recorder never fails
		return
	}
	world := o.life.w
	condition := r.Header.Get("If-None-Match")
	rd, rng := world.beginRender(o.life, r.URL.Path, condition != "")
	if rd == nil {
		return
	}
	defer world.endRender(rd)
	if backoff.Wait(r.Context(), world.pace.of(rd.page.renderTime(rng, world.profile.failures && !world.recovering()))) != nil { // the render was abandoned
		return
	}
	h := w.Header()
	if world.profile.failures && rng.IntN(world.failing) == 0 && !world.recovering() {
		o.misbehave(w, rng, rd)
		return
	}
	if condition == etagOf(rd.content) {
		world.noteSame(rd)
		h.Set("Etag", condition)
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", "text/html")
	h.Set("X-Content", rd.content)
	h.Set("Etag", etagOf(rd.content))
	h.Set("Surrogate-Key", tagOf(rd.content))
	content := bodyOf(rd.content)
	half := len(content) / 2
	_, _ = w.Write(content[:half]) // fails if the render was abandoned
	if backoff.Wait(r.Context(), world.pace.of(time.Duration(rng.Int64N(int64(time.Second))))) != nil {
		return
	}
	_, _ = w.Write(content[half:])
}

// misbehave gives a response that must not become a page.
func (o *origin) misbehave(w http.ResponseWriter, rng *rand.Rand, rd *rendering) {
	content := rd.content
	switch rng.IntN(o.life.w.pace.misdeeds) {
	case 0:
		w.WriteHeader(http.StatusInternalServerError)
	case 1:
		w.Header().Set("Content-Length", "100000") // longer than the body
		_, _ = w.Write(bodyOf(content))
	case 2:
		o.life.w.noteWithdrawn(rd)
		w.Header().Set("Cache-Control", "private, no-store")
		_, _ = w.Write(bodyOf(content))
	default: // empty
	}
}

// noteWithdrawn records that a process received a response that must not be stored. It may fail to
// tell the store.
func (w *world) noteWithdrawn(rd *rendering) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rd.life.pages[rd.page].withdrawn = true
}

// renderTime draws a duration: mostly short, sometimes longer than a third of a lease, rarely
// longer than a lease.
func (p *page) renderTime(rng *rand.Rand, failures bool) time.Duration {
	d := time.Duration(rng.Int64N(int64(3 * time.Second)))
	switch n := rng.IntN(16); {
	case n == 0:
		d += 40 * time.Second
	case n < 4:
		d += 12 * time.Second
	case n == 4 && failures:
		d += 2 * renderTimeout
	}
	return d
}

// beginRender records a rendering, and returns the random source of its behaviour. It returns nil
// for a dead process.
func (w *world) beginRender(l *life, path string, asked bool) (*rendering, *rand.Rand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.pageAt(path)
	if p == nil || l.isDead() {
		return nil, nil
	}
	p.renders++
	rng := rand.New(rand.NewPCG(w.seed^uint64(p.renders), digestNumber(path)))
	if rng.IntN(6) > 0 || p.contents == 0 { // otherwise the page is unchanged
		p.contents++
	}
	rd := &rendering{
		page: p, life: l, number: p.renders, step: w.step, seq: w.seq, knew: l.applied.Load(),
		content: contentName(p.path, p.contents), began: time.Now(), asked: asked,
	}
	w.events = append(w.events, event{kind: renderBegan, life: l, page: p, render: rd})
	return rd, rng
}

// noteSame records that a rendering is answered by 304.
func (w *world) noteSame(rd *rendering) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rd.same = time.Now()
}

func (w *world) endRender(rd *rendering) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rd.over = true
}

// digestNumber derives a number from a text.
func digestNumber(s string) uint64 {
	var n uint64
	for _, c := range []byte(digest([]byte(s))[:8]) {
		n = n<<8 | uint64(c)
	}
	return n
}
