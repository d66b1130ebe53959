package site

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

//go:embed templates assets
var files embed.FS

// site is a running site.
type site struct {
	delay     time.Duration
	now       func() time.Time
	templates map[string]*template.Template
	// version is part of the URL of every asset, so that assets can be immutable and
	// still change with the program.
	version string
	// broken makes /unreliable fail.
	broken  atomic.Bool
	renders counter
}

func newSite(cfg Config) *site {
	s := &site{delay: cfg.Delay, now: cfg.Now, version: assetVersion()}
	if s.delay == 0 {
		s.delay = DefaultDelay
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.templates = s.parse()
	return s
}

// assetVersion returns a short hash of all embedded assets.
func assetVersion() string {
	h := sha256.New()
	err := fs.WalkDir(files, "assets", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := files.ReadFile(name)
		fmt.Fprintf(h, "%s %d\n%s", name, len(content), content)
		return err
	})
	if err != nil {
		panic(err) // cannot happen: the files are embedded
	}
	return hex.EncodeToString(h.Sum(nil))[:8]
}

// parse parses the embedded templates: each page within the layout.
func (s *site) parse() map[string]*template.Template {
	layout := template.Must(template.New("layout.html").Funcs(template.FuncMap{
		"asset": func(name string) string { return "/assets/" + s.version + "/" + name },
		"clock": func(t time.Time) string { return t.UTC().Format("15:04:05") },
		"iso":   func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"day":   func(t time.Time) string { return t.UTC().Format("Monday, 2 January 2006") },
	}).ParseFS(files, "templates/layout.html"))

	pages := make(map[string]*template.Template)
	for _, name := range []string{"front", "section", "story", "order", "unreliable", "broken", "oven", "about", "notfound"} {
		t := template.Must(layout.Clone())
		pages[name] = template.Must(t.ParseFS(files, "templates/"+name+".html"))
	}
	return pages
}

// page is the content of a response, except for the time of its render.
type page struct {
	// Template is the name of the file in templates, without its suffix.
	Template string
	// Name identifies the page to the render counter. It must be from a bounded set,
	// so never taken from the request. Pages without a name are not counted.
	Name string
	// Title is the title of the document, Section the current entry of the menu.
	Title, Section string
	// Status is the HTTP status; 0 means 200.
	Status int
	// Cache is the caching policy; the zero value forbids caching.
	Cache window
	// Data is the data of the page's template.
	Data any
}

// window is the caching policy of a page, in seconds. It becomes Cache-Control.
type window struct {
	// Fresh is s-maxage, Stale stale-while-revalidate, IfError stale-if-error.
	Fresh, Stale, IfError int
	// Private forbids storing in shared caches.
	Private bool
}

func (w window) String() string {
	switch {
	case w.Private:
		return "private, no-store"
	case w.Fresh == 0:
		return "no-store"
	case w.IfError > 0:
		return fmt.Sprintf("s-maxage=%d, stale-while-revalidate=%d, stale-if-error=%d", w.Fresh, w.Stale, w.IfError)
	}
	return fmt.Sprintf("s-maxage=%d, stale-while-revalidate=%d", w.Fresh, w.Stale)
}

// view is the data of the templates.
type view struct {
	page
	// Rendered is the start of the render, from which caches count the age.
	Rendered time.Time
	// Count is the number of renders of this page, including this one.
	Count int64
	// Delay is the render time in milliseconds.
	Delay int64
}

// render waits for the site's delay and sends the page. If the client disconnects
// during the delay, it sends nothing and does not count the render.
func (s *site) render(w http.ResponseWriter, r *http.Request, p page) {
	began := s.now()
	if !sleep(r.Context(), s.delay) {
		return
	}
	s.write(w, view{page: p, Rendered: began, Count: s.renders.next(p.Name), Delay: max(s.delay, 0).Milliseconds()})
}

// write sends the page with its Content-Length.
func (s *site) write(w http.ResponseWriter, v view) {
	var body bytes.Buffer
	if err := s.templates[v.Template].Execute(&body, v); err != nil {
		http.Error(w, "demosite: "+err.Error(), http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	h.Set("Cache-Control", v.Cache.String())
	if v.Status != 0 {
		w.WriteHeader(v.Status)
	}
	w.Write(body.Bytes()) // an error means that the client disconnected
}

// sleep waits for d. It reports false if ctx was done first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// counter counts renders by page. Its zero value is ready to use. It is safe for
// concurrent use.
type counter struct {
	mu sync.Mutex
	n  map[string]int64 // guarded by mu
}

// next counts a render of the page and returns its number. Without a name it counts
// nothing and returns 1.
func (c *counter) next(name string) int64 {
	if name == "" {
		return 1
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = make(map[string]int64)
	}
	c.n[name]++
	return c.n[name]
}
