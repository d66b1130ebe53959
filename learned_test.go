package isr_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// own is a header that has each visitor's own request sent: only by what is learned does the origin
// see fewer than two.
const own = "X-Segment: b"

func refusing(w http.ResponseWriter, _ *http.Request, _ int64) {
	w.Header().Set("Cache-Control", "private")
	fmt.Fprint(w, "mine")
}

// TestUncacheableSite: 100 pages that must not be shared cost the origin at most 110 requests,
// whether the visitors get the responses of the renders or not.
func TestUncacheableSite(t *testing.T) {
	for name, header := range map[string][]string{"ordinary visitors": nil, "visitors with a header of their own": {own}} {
		for _, path := range []string{"/link/%d", "/link/%d/more", "/%d", "/search?q=%d"} {
			t.Run(name+path, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tb, site := newTable(t), newSite()
					site.delay = 0
					site.answers(refusing)
					h := tb.node(tb.store("a"), nil).Handler(isr.Route{Query: []string{"q"}}, site)
					for i := range 100 {
						if a := get(h, fmt.Sprintf(path, i), header...); a.Body.String() != "mine" || strings.Contains(a.status(), "hit") {
							t.Errorf("got %q, %s", a.Body, a.status())
						}
					}
					if n := site.renders.Load(); n > 110 {
						t.Errorf("%d requests for 100 pages", n)
					}
				})
			})
		}
	}
}

// learned returns a node of which the section /link/ is learned.
func learned(t *testing.T) (*isr.Cache, http.Handler, *site) {
	t.Helper()
	tb, site := newTable(t), newSite()
	tb.poll = rarely
	site.delay = 0
	site.answers(refusing)
	node := tb.node(tb.store("a"), nil)
	h := node.Handler(isr.Route{Label: "site"}, site)
	for i := range 4 {
		get(h, fmt.Sprint("/link/", i), own)
	}
	a := get(h, "/link/learned", own)
	expect(t, a, "mine", "isr; fwd=miss; fwd-status=200; detail=learned")
	if n := site.renders.Load(); n != 9 {
		t.Errorf("%d requests for 5 pages", n)
	}
	all := node.Learned()
	if len(all) != 1 || all[0].Section != "example.com/link/" || all[0].Reason != "private" || all[0].Route != "site" {
		t.Errorf("learned: %+v", all)
	}
	if text := tb.log.String(); strings.Count(text, "section=example.com/link/") != 1 || !strings.Contains(text, "s-maxage=60") {
		t.Errorf("the log does not say how to mend it: %s", text)
	}
	return node, h, site
}

// TestLearnedSectionEnds: a section that is learned is rendered again once something says that its
// pages may be cacheable.
func TestLearnedSectionEnds(t *testing.T) {
	for name, mend := range map[string]func(*testing.T, *isr.Cache, http.Handler){
		"a visitor's response": func(_ *testing.T, _ *isr.Cache, h http.Handler) { get(h, "/link/shared") },
		"a render is tried": func(_ *testing.T, _ *isr.Cache, h http.Handler) {
			time.Sleep(10 * time.Second)
			get(h, "/link/tried", own)
		},
		"each 64th request": func(_ *testing.T, _ *isr.Cache, h http.Handler) {
			for i := range 63 {
				get(h, fmt.Sprint("/link/more", i), own)
			}
		},
		"a purge": func(t *testing.T, c *isr.Cache, _ http.Handler) {
			if _, err := c.Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{isr.PurgeKey(page)}}); err != nil {
				t.Error(err)
			}
		},
		"time": func(*testing.T, *isr.Cache, http.Handler) { time.Sleep(11 * time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, h, site := learned(t)
				site.answers(cacheable)
				mend(t, c, h)
				if all := c.Learned(); len(all) != 0 {
					t.Errorf("still learned: %+v", all)
				}
				if a := get(h, "/link/new", own); !strings.Contains(a.status(), "stored") {
					t.Errorf("got %s", a.status())
				}
			})
		})
	}
	t.Run("changed routes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, _, site := learned(t)
			if _, err := c.Bind([]isr.Binding{{Route: isr.Route{}, Renderer: site}}, func(store.Key) int { return 0 }); err != nil {
				t.Fatal(err)
			}
			if all := c.Learned(); len(all) != 0 {
				t.Errorf("still learned: %+v", all)
			}
		})
	})
}

// TestStrangersDoNotTurnTheCacheOff: requests for pages that are not cacheable, or do not exist, do
// not keep good pages of their section from being stored.
func TestStrangersDoNotTurnTheCacheOff(t *testing.T) {
	bad := func(code int) func(http.ResponseWriter, *http.Request, int64) {
		return func(w http.ResponseWriter, r *http.Request, n int64) {
			if strings.HasPrefix(r.URL.Path, "/blog/good") {
				cacheable(w, r, n)
				return
			}
			w.Header().Set("Cache-Control", "no-store")
			w.WriteHeader(code)
		}
	}
	for name, c := range map[string]struct {
		code int
		good bool // a good page was rendered lately
	}{
		"invented pages":                      {code: http.StatusNotFound},
		"uncacheable pages beside good ones":  {code: http.StatusOK, good: true},
		"forbidden pages beside good ones":    {code: http.StatusForbidden, good: true},
		"invented pages of a site with pages": {code: http.StatusGone, good: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				site.delay = 0
				site.answers(bad(c.code))
				node := tb.node(tb.store("a"), nil)
				h := node.Handler(isr.Route{}, site)
				if c.good {
					get(h, "/blog/good/old")
				}
				for i := range 200 {
					get(h, fmt.Sprint("/blog/bad", i), own)
				}
				if a := get(h, "/blog/good/new"); !strings.Contains(a.status(), "stored") {
					t.Errorf("a good page got %s; learned: %+v", a.status(), node.Learned())
				}
			})
		})
	}
	t.Run("learned before", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tb, site := newTable(t), newSite()
			site.delay = 0
			site.answers(bad(http.StatusOK))
			h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
			flood := func(from int) {
				for i := range 20 {
					get(h, fmt.Sprint("/blog/bad", from+i), own)
				}
			}
			flood(0)
			get(h, "/blog/good/new") // passes through, and tells that the section has good pages
			flood(20)
			if a := get(h, "/blog/good/new"); !strings.Contains(a.status(), "stored") {
				t.Errorf("got %s", a.status())
			}
			flood(40)
			if a := get(h, "/blog/good/new"); !strings.Contains(a.status(), "hit") {
				t.Errorf("got %s", a.status())
			}
		})
	})
}

// A page that was passed through because of its section is remembered as not cacheable.
func TestLearnedPageIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, h, _ := learned(t)
		get(h, "/link/a")
		expect(t, get(h, "/link/a"), "mine", "isr; fwd=bypass; fwd-status=200; detail=private")
	})
}

// A visitor who asks for a part of a page, or has it already, does not make others pass through.
func TestPartsSayNothingOfThePage(t *testing.T) {
	for _, field := range []string{"Range: bytes=0-1", "Range: bytes=9-", `If-None-Match: "a"`, "If-Unmodified-Since: Fri, 31 Dec 1999 00:00:00 GMT"} {
		synctest.Test(t, func(t *testing.T) {
			_, h, site := learned(t)
			page := func(w http.ResponseWriter, r *http.Request, n int64) {
				w.Header().Set("Etag", `"a"`)
				w.Header().Set("Cache-Control", "max-age=60")
				http.ServeContent(w, r, "a.txt", time.Now(), strings.NewReader("page"))
			}
			site.answers(page)
			if a := get(h, "/link/a", field); a.Code < 206 || !strings.Contains(a.status(), "learned") {
				t.Errorf("%s: %d %s", field, a.Code, a.status())
			}
			get(h, "/link/a")
			if a := get(h, "/link/a"); !strings.Contains(a.status(), "stored") {
				t.Errorf("%s: the page is not rendered again: %s", field, a.status())
			}
			site.answers(refusing)
			get(h, "/link/b", own)
			site.answers(page)
			time.Sleep(90 * time.Second)
			get(h, "/link/b", field)
			time.Sleep(time.Minute)
			if a := get(h, "/link/b"); strings.Contains(a.status(), "bypass") {
				t.Errorf("%s: the refusal is remembered for longer: %s", field, a.status())
			}
		})
	}
}

// What is known of sections is bounded, however many are requested.
func TestLearnedSectionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 0
		site.answers(refusing)
		node := tb.node(tb.store("a"), nil)
		h := node.Handler(isr.Route{}, site)
		for i := range 1100 {
			for j := range 4 {
				get(h, fmt.Sprintf("/%d/%d", i, j))
			}
		}
		if n := len(node.Learned()); n == 0 || n > 1024 {
			t.Errorf("%d sections are learned", n)
		}
	})
}
