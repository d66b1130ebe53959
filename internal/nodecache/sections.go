package nodecache

import (
	"cmp"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/facetheory/isr/internal/details"
	"github.com/facetheory/isr/internal/guard"
	"github.com/facetheory/isr/store"
)

// A section is the pages of a route and a host whose paths have the same first segment, or the
// same path if they differ in their query: /link/ of /link/a and /link/b, and /search? of
// /search?q=a. If learnAfter renders of a section in a row were refused for one reason, and none
// was cacheable lately, it is learned that its pages are likely not cacheable:
//
//	page not stored ──► its section is learned ──► the visitor's own request (detail=learned)
//	                          └──► every probeEvery requests, or probeAfter: a render as ever
//
// Stored pages, and answers of the negative cache, are looked up first as ever. What was learned
// ends with the first render of the section that is cacheable, with a response to a request
// without personal parts that looks so, learnedFor after the last that does not, with a purge by
// this process, and when the routes change. After a cacheable page a section is not learned for
// cacheableFor: who requests invented URLs, or pages that are not cacheable, does not turn off
// the cache for others of the section.
const (
	learnAfter   = 4
	probeEvery   = 64
	probeAfter   = 10 * time.Second
	learnedFor   = 10 * time.Minute
	cacheableFor = 5 * time.Minute
	// maxSections bounds the sections that a process knows, and maxSectionName the length of
	// their paths, in bytes. Longer ones are not learned.
	maxSections    = 1024
	maxSectionName = 256
)

// A sectionKey names a section.
type sectionKey struct {
	route              *RouteSections
	tenant, host, path string
}

// sectionOf returns the section of a page; ok is false if its path is too long.
func sectionOf(r *RouteSections, k store.Key) (s sectionKey, ok bool) {
	host, path, query, _ := k.Split()
	if query != "" {
		path += "?"
	} else if first := strings.IndexByte(path[1:], '/'); first >= 0 {
		path = path[:first+2]
	} else {
		path = "/"
	}
	// Keys may be in buffers that are used again.
	return sectionKey{r, strings.Clone(k.Tenant), strings.Clone(host), strings.Clone(path)}, len(path) <= maxSectionName
}

// A section is what is known of the renders of a section.
type section struct {
	reason    string    // of the last refusal
	refused   int       // how many renders in a row were refused for it
	since     time.Time // when it was learned; zero if it is not
	until     time.Time // when this is forgotten
	cacheable time.Time // until when it is not learned: a page was cacheable
	asked     int       // requests since the last render of a section that is learned
	tried     time.Time // when that was
}

// Sections are the sections that a node knows. All methods are safe for concurrent use.
type Sections struct {
	log    *guard.Complaints
	logger *slog.Logger
	mu     sync.Mutex
	byKey  map[sectionKey]*section // guarded by mu
}

// NewSections returns sections of which none is learned.
func NewSections(logger *slog.Logger) *Sections {
	return &Sections{log: guard.NewComplaints(logger, slog.LevelWarn), logger: logger}
}

// RouteSections are the sections of one route. All methods are safe for concurrent use.
type RouteSections struct {
	s       *Sections
	label   string
	decided func(reason string) bool
}

// Route returns the sections of a route with this label; none of them is learned. decided reports whether the
// header of a response shows that a reason for a refusal no longer applies: only such reasons are learned.
func (s *Sections) Route(label string, decided func(reason string) bool) *RouteSections {
	return &RouteSections{s, label, decided}
}

// Ask returns the reason for which a request for a page that is not stored is sent to the renderer
// itself; empty if the page is rendered. The request counts.
func (r *RouteSections) Ask(k store.Key) (reason string) { return r.s.decide(r, k, true) }

// Peek is Ask for a request that does not count.
func (r *RouteSections) Peek(k store.Key) (reason string) { return r.s.decide(r, k, false) }

func (s *Sections) decide(r *RouteSections, k store.Key, counts bool) (reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byKey) == 0 {
		return ""
	}
	at, _ := sectionOf(r, k)
	now, found := time.Now(), s.byKey[at]
	if found == nil || found.since.IsZero() || !now.Before(found.until) {
		return ""
	}
	probe := found.asked+1 >= probeEvery || now.Sub(found.tried) >= probeAfter
	switch {
	case counts && probe:
		found.asked, found.tried = 0, now
	case counts:
		found.asked++
	}
	if probe {
		return ""
	}
	return found.reason
}

// findLocked returns what is known of the section of a page, nil if its path is too long. Callers
// must hold mu.
func (s *Sections) findLocked(r *RouteSections, k store.Key, now time.Time) (sectionKey, *section) {
	at, ok := sectionOf(r, k)
	if !ok {
		return at, nil
	}
	found := s.byKey[at]
	if found == nil || !now.Before(found.until) && !now.Before(found.cacheable) {
		found = new(section)
		s.roomLocked(now)
		s.byKey[at] = found
	}
	return at, found
}

// roomLocked makes room for one more section. Callers must hold mu.
func (s *Sections) roomLocked(now time.Time) {
	if s.byKey == nil {
		s.byKey = make(map[sectionKey]*section)
	}
	if len(s.byKey) < maxSections {
		return
	}
	for at, found := range s.byKey {
		if found.since.IsZero() && !now.Before(found.cacheable) || !now.Before(found.until) && !now.Before(found.cacheable) {
			delete(s.byKey, at)
		}
	}
	if len(s.byKey) >= maxSections {
		clear(s.byKey) // they are learned again
	}
}

// Refused records that the render of a page was refused, or that the response to a request for it
// looks as if it would be. What only a body or a visitor's spelling of the URL decides says nothing of others.
func (r *RouteSections) Refused(k store.Key, reason string) {
	if !r.decided(reason) {
		return
	}
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	at, found := s.findLocked(r, k, now)
	if found == nil || now.Before(found.cacheable) {
		return
	}
	if found.reason != reason && found.since.IsZero() {
		found.refused = 0
	}
	found.reason, found.until = reason, now.Add(learnedFor)
	found.refused++
	if found.refused < learnAfter || !found.since.IsZero() {
		return
	}
	found.since, found.asked, found.tried = now, 0, now
	d, _ := details.OfRefusal(reason)
	s.log.Log("pages of a section are not rendered any more before the requests of visitors pass through, because the last renders were refused",
		"route", r.label, "section", at.host+at.path, "reason", reason, "means", d.Meaning, "advice", d.Advice)
}

// Cacheable records that a page was rendered, found in the store, or seems to be cacheable.
func (r *RouteSections) Cacheable(k store.Key) {
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if at, found := s.findLocked(r, k, now); found != nil {
		if !found.since.IsZero() {
			s.logger.Info("pages of a section are rendered again", "route", r.label, "section", at.host+at.path)
		}
		*found = section{cacheable: now.Add(cacheableFor)}
	}
}

// Forget forgets all sections.
func (s *Sections) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.byKey)
}

// A LearnedSection is a section that is learned. It has the fields of isr.LearnedSection, which documents them.
type LearnedSection struct {
	Route, Tenant, Section, Reason string
	Since                          time.Time
}

// Learned returns the sections that are learned, sorted; at most 1,024.
func (s *Sections) Learned() []LearnedSection {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []LearnedSection
	for at, found := range s.byKey {
		if !found.since.IsZero() && time.Now().Before(found.until) {
			all = append(all, LearnedSection{Route: at.route.label, Tenant: at.tenant, Section: at.host + at.path, Reason: found.reason, Since: found.since})
		}
	}
	slices.SortFunc(all, func(a, b LearnedSection) int {
		return cmp.Or(cmp.Compare(a.Section, b.Section), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Route, b.Route))
	})
	return all
}
