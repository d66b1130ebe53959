package site

import (
	"io/fs"
	"net/http"
	"strconv"
	"time"
)

// perPage is the number of stories on a page of the section.
const perPage = 3

// usual is the caching policy of an ordinary page, short enough for a visitor to see it
// fresh, stale and fresh again within half a minute.
var usual = window{Fresh: 10, Stale: 60}

func (s *site) front(w http.ResponseWriter, r *http.Request) {
	all := stories()
	s.render(w, r, page{
		Template: "front", Name: "/", Title: "The Daily Crumb", Section: "front", Cache: usual,
		Data: struct {
			Lead  story
			Rest  []story
			Shelf []shelf
		}{all[0], all[1:], shelves(s.now())},
	})
}

// shelf is a line of the front page's window display.
type shelf struct {
	Loaf string
	Left int
}

// shelves returns made-up stock numbers at time t. They change every second, so that two
// renders differ in more than their timestamp.
func shelves(t time.Time) []shelf {
	sec := int(t.Unix() % 3600)
	return []shelf{
		{"Country white", 4 + sec*7%19},
		{"Dark rye", 2 + sec*5%13},
		{"Poppy plait", 1 + sec*3%11},
		{"Raisin bun", sec % 7},
	}
}

// section lists the stories, perPage at a time. An invalid page number is 404; otherwise
// ?page= could create an unlimited number of cached pages.
func (s *site) section(w http.ResponseWriter, r *http.Request) {
	all := stories()
	last := (len(all) + perPage - 1) / perPage
	n := 1
	if q := r.URL.Query(); q.Has(pageParameter) {
		var err error
		if n, err = strconv.Atoi(q.Get(pageParameter)); err != nil || n < 1 || n > last {
			s.notFound(w, r)
			return
		}
	}
	first := (n - 1) * perPage
	next := n + 1
	if n == last {
		next = 0
	}
	s.render(w, r, page{
		Template: "section", Name: "/stories?page=" + strconv.Itoa(n), Title: "Stories", Section: "stories", Cache: usual,
		Data: struct {
			Stories    []story
			Page, Last int
			// Previous and Next are 0 if there is no such page.
			Previous, Next int
		}{all[first:min(first+perPage, len(all))], n, last, n - 1, next},
	})
}

func (s *site) story(w http.ResponseWriter, r *http.Request) {
	all := stories()
	for i, st := range all {
		if st.Slug != r.PathValue("slug") {
			continue
		}
		s.render(w, r, page{
			Template: "story", Name: "/stories/" + st.Slug, Title: st.Title, Section: "stories", Cache: usual,
			Data: struct{ Story, Next story }{st, all[(i+1)%len(all)]},
		})
		return
	}
	s.notFound(w, r)
}

// latest redirects to the newest story. The redirect is cacheable, like a page.
func (s *site) latest(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", usual.String())
	http.Redirect(w, r, "/stories/"+stories()[0].Slug, http.StatusFound)
}

// visitCookie counts a visitor's visits to /order.
const visitCookie = "crumb_visits"

// order is the personal page: it reads and sets a cookie, and sends Cache-Control:
// private and Vary: Cookie.
func (s *site) order(w http.ResponseWriter, r *http.Request) {
	visits := 1
	if c, err := r.Cookie(visitCookie); err == nil {
		if n, err := strconv.Atoi(c.Value); err == nil && n > 0 && n < 1000 {
			visits = n + 1
		}
	}
	http.SetCookie(w, &http.Cookie{
		Name: visitCookie, Value: strconv.Itoa(visits),
		// The path is limited: with a cookie on every page, every request of this
		// visitor would bypass the cache.
		Path:     "/order",
		MaxAge:   3600,
		HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
	w.Header().Set("Vary", "Cookie")
	s.render(w, r, page{
		Template: "order", Name: "/order", Title: "Your order", Section: "order", Cache: window{Private: true},
		Data: struct{ Visits int }{visits},
	})
}

// unreliable renders a page, or returns 500 while the oven is broken. Its stale-if-error
// lets a cache serve the last good copy until then.
func (s *site) unreliable(w http.ResponseWriter, r *http.Request) {
	p := page{
		Template: "unreliable", Name: "/unreliable", Title: "The unreliable oven", Section: "unreliable",
		Cache: window{Fresh: 5, Stale: 15, IfError: 600},
	}
	if s.broken.Load() {
		p = page{
			Template: "broken", Title: "The oven is broken", Section: "unreliable",
			Status: http.StatusInternalServerError,
		}
	}
	s.render(w, r, p)
}

// oven shows the state of the oven and the form to change it. Unlike /unreliable it has
// no delay and is never stored.
func (s *site) oven(w http.ResponseWriter, _ *http.Request) {
	s.write(w, view{
		page: page{
			Template: "oven", Title: "The oven", Section: "unreliable",
			Data: struct{ Broken bool }{s.broken.Load()},
		},
		Rendered: s.now(), Count: 1,
	})
}

// switchOven breaks or repairs the oven. Its path is not /unreliable, and it does not
// redirect there: after a POST a cache invalidates the target URI and the Location (RFC
// 9111, section 4.4), and would lose the copy that stale-if-error needs.
func (s *site) switchOven(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 1<<10)
	state := r.PostFormValue("state")
	if state != "broken" && state != "working" {
		http.Error(w, `demosite: invalid state: expected "broken" or "working"`, http.StatusBadRequest)
		return
	}
	s.broken.Store(state == "broken")
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, "/oven", http.StatusSeeOther)
}

func (s *site) about(w http.ResponseWriter, r *http.Request) {
	s.render(w, r, page{
		Template: "about", Name: "/about", Title: "How it works", Section: "about",
		Cache: window{Fresh: 30, Stale: 300},
	})
}

// notFound responds without delay, with no-store.
func (s *site) notFound(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "demosite: method not allowed", http.StatusMethodNotAllowed)
		return
	}
	s.write(w, view{
		page:     page{Template: "notfound", Title: "Not found", Status: http.StatusNotFound},
		Rendered: s.now(), Count: 1,
	})
}

// asset serves an embedded file as immutable, and only under the current asset version.
func (s *site) asset(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("version") != s.version {
		s.notFound(w, r)
		return
	}
	name := "assets/" + r.PathValue("file")
	if _, err := fs.Stat(files, name); err != nil {
		s.notFound(w, r)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeFileFS(w, r, files, name)
}
