package isr_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// redirect answers each request with a redirect that is fresh for a minute.
func redirect(status int, location string) func(http.ResponseWriter, *http.Request, int64) {
	return func(w http.ResponseWriter, _ *http.Request, n int64) {
		w.Header()["Location"] = []string{location}
		w.Header().Set("Cache-Control", "public, max-age=60, stale-while-revalidate=86400")
		w.WriteHeader(status)
		fmt.Fprintf(w, "redirect %d", n)
	}
}

// A redirect to the cache key of its own request is never stored, however the origin writes that
// URL; another redirect is.
func TestSelfRedirectIsNotStored(t *testing.T) {
	byScheme := []string{"X-Forwarded-Proto"}
	for _, c := range []struct {
		path, location string
		itself         bool
		vary           []string
		header         []string
	}{
		{path: "/a%2Fb", location: "/a%2fb", itself: true},
		{path: "/%D0%BF", location: "/п", itself: true},
		{path: "/~a", location: "/%7Ea", itself: true},
		{path: "/x?q=a%20b", location: "/x?q=a+b", itself: true},
		{path: "/x?q=%2F", location: "?q=/", itself: true},
		{path: "/x?a=1&b=2", location: "/x?b=2&a=1", itself: true},
		{path: "/x", location: "/x?utm_source=mail", itself: true},
		{path: "/x", location: "/x?", itself: true},
		{path: "/x", location: "/x#top", itself: true},
		{path: "/x", location: "#%", itself: true},
		{path: "/x", location: "https://example.com/x", itself: true},
		{path: "/x", location: "HTTPS://EXAMPLE.com:443/x", itself: true},
		{path: "/x", location: "http://example.com:80/x", itself: true},
		{path: "/x", location: "http://example.com./x", itself: true},
		{path: "/x", location: "//example.com/x", itself: true},
		{path: "/x", location: `https:\\example.com\x`, itself: true},
		{path: "/x", location: "https:/x", itself: true},
		{path: "/", location: "https://example.com", itself: true},
		{path: "/a/x", location: "x", itself: true},
		{path: "/a/x", location: "./y/../x", itself: true},
		{path: "/a/x", location: "/b/%2e%2E/a/x", itself: true},
		{path: "/a%20b", location: " /a b\t", itself: true},
		{path: "/x", location: "/x/"},
		{path: "/x", location: "/X"},
		{path: "/x?q=a", location: "/x"},
		{path: "/x", location: "/x?unknown=1"},
		{path: "/x", location: "https://www.example.com/x"},
		{path: "/x", location: "http://example.com:8080/x"},
		{path: "/x", location: "ftp://example.com/x"},
		{path: "/x", location: "/%zz"},
		{path: "/x", location: ""},
		{path: "/x", location: "https://example.com/x", vary: byScheme, header: []string{"X-Forwarded-Proto: http"}},
		{path: "/x", location: "https://example.com/x", vary: byScheme, header: []string{"X-Forwarded-Proto: https"}, itself: true},
		{path: "/x", location: "//example.com/x", vary: byScheme, header: []string{"X-Forwarded-Proto: https"}, itself: true},
		{path: "/x", location: "https://example.com/x", vary: byScheme, itself: true},
	} {
		t.Run(fmt.Sprintf("%s to %q by %q", c.path, c.location, c.header), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				site.answers(redirect(http.StatusMovedPermanently, c.location))
				h := tb.node(tb.store("a"), nil).Handler(isr.Route{Query: []string{"a", "b", "q"}, Vary: c.vary}, site)
				first, second := get(h, c.path, c.header...), get(h, c.path, c.header...)
				if c.itself {
					if rows := tb.rowCount(t); rows != 0 {
						t.Errorf("it left %d rows", rows)
					}
					for _, a := range []answer{first, second} {
						if !strings.HasSuffix(a.status(), "; detail=self-redirect") || a.Code != http.StatusMovedPermanently {
							t.Errorf("%d, %s", a.Code, a.status())
						}
					}
					return
				}
				if !strings.Contains(first.status(), "stored") || !strings.HasPrefix(second.status(), "isr; hit") {
					t.Errorf("%s, then %s", first.status(), second.status())
				}
			})
		})
	}
}

// Each status that redirects counts; 200 with a Location does not.
func TestSelfRedirectByStatus(t *testing.T) {
	for status, itself := range map[int]bool{
		http.StatusOK: false, http.StatusMultipleChoices: true, http.StatusMovedPermanently: true, http.StatusFound: true,
		http.StatusSeeOther: true, http.StatusTemporaryRedirect: true, http.StatusPermanentRedirect: true,
	} {
		synctest.Test(t, func(t *testing.T) {
			tb, site := newTable(t), newSite()
			site.answers(redirect(status, "/x"))
			h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
			if a := get(h, "/x"); strings.HasSuffix(a.status(), "; detail=self-redirect") != itself {
				t.Errorf("%d: %s", status, a.status())
			}
		})
	}
}

// A visitor whose spelling the origin prefers gets the page, again and again, and the refusal is
// remembered: the canonical spelling is not rendered each time.
func TestSelfRedirectPassesTheVisitorsSpelling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		renders := 0
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			if r.URL.EscapedPath() != "/a%2fb" {
				renders++
				redirect(http.StatusFound, "/a%2fb")(w, r, n)
				return
			}
			cacheable(w, r, n)
		})
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		for range 5 {
			if a := get(h, "/a%2fb"); a.Code != http.StatusOK || a.status() != "isr; fwd=bypass; fwd-status=200; detail=self-redirect" && a.status() != "isr; fwd=miss; fwd-status=200; detail=self-redirect" {
				t.Errorf("%d, %s", a.Code, a.status())
			}
		}
		if renders != 1 {
			t.Errorf("%d renders, want 1", renders)
		}
	})
}

// A redirect to the same key does not withdraw the stored page, whatever its header says: a proxy that
// loses the scheme for an hour must not cost a site its pages. Nor does a forced regeneration.
func TestSelfRedirectKeepsTheStoredPage(t *testing.T) {
	for _, line := range []string{"", "Cache-Control: no-store, private", "Set-Cookie: session=1"} {
		t.Run(line, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				site.answers(lasting)
				a := tb.peer("a", isr.Route{Name: "site"}, site, nil)
				get(a, "/")
				site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
					redirect(http.StatusMovedPermanently, "https://example.com/")(w, r, n)
				})
				if name, value, ok := strings.Cut(line, ": "); ok {
					site.answers(func(w http.ResponseWriter, r *http.Request, _ int64) {
						w.Header().Set(name, value)
						w.Header().Set("Location", "https://example.com/")
						w.WriteHeader(http.StatusMovedPermanently)
					})
				}
				if _, err := a.Regenerate(t.Context(), page); !errors.Is(err, isr.ErrUncacheable) || !strings.Contains(fmt.Sprint(err), "self-redirect") {
					t.Errorf("a forced regeneration: %v", err)
				}
				expect(t, get(a, "/"), "/ rendered 1", "isr; hit")
				time.Sleep(2 * time.Minute)
				expect(t, get(a, "/"), "/ rendered 1", "isr; hit; ttl=-") // stale, and rendered again
				time.Sleep(10 * time.Second)
				if got := get(a, "/"); got.Code != http.StatusMovedPermanently || !strings.HasSuffix(got.status(), "; detail=self-redirect") {
					t.Errorf("after the redirect: %d, %s", got.Code, got.status())
				}
				rec, err := tb.store("reader").Read(t.Context(), store.HashedPartition(page))
				if err != nil || rec.Entry == nil || rec.Entry.Withdrawn {
					t.Fatalf("the stored page: %+v, %v", rec.Entry, err)
				}
				site.answers(broken)
				time.Sleep(3 * time.Minute) // the refusal is forgotten
				get(a, "/")
				time.Sleep(10 * time.Second)
				expect(t, get(a, "/"), "/ rendered 1", "isr; hit")
				site.answers(lasting)
				time.Sleep(5 * time.Minute)
				get(a, "/")
				time.Sleep(10 * time.Second)
				if got := get(a, "/"); got.Code != http.StatusOK || !strings.HasPrefix(got.status(), "isr; hit; ttl=") {
					t.Errorf("once the origin answers again: %d, %s", got.Code, got.status())
				}
			})
		})
	}
}

// A redirect to its own key that another version of this program, or another service, has stored
// counts as missing, even if it is pinned.
func TestStoredSelfRedirectIsNotServed(t *testing.T) {
	for _, pinned := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			tb, site := newTable(t), newSite()
			site.answers(redirect(http.StatusMovedPermanently, "/elsewhere"))
			a, b := tb.peer("a", isr.Route{Name: "site"}, site, nil), tb.peer("b", isr.Route{Name: "site"}, site, nil)
			get(a, "/")
			st := tb.store("writer")
			pk := store.HashedPartition(page)
			lease, err := st.Acquire(t.Context(), pk, time.Minute, nil)
			if err != nil {
				t.Fatal(err)
			}
			rec, err := st.Read(t.Context(), pk)
			if err != nil {
				t.Fatal(err)
			}
			e := *rec.Entry
			e.Header = e.Header.Clone()
			e.Header.Set("Location", "https://example.com/")
			e.GenerationID += "2"
			if pinned {
				e.PinnedUntil = time.Now().Add(time.Hour)
			}
			if _, err := st.Publish(t.Context(), lease, rec, e, store.PublishOptions{Superseded: time.Now().Add(time.Hour), Key: page, Reload: true}); err != nil {
				t.Fatal(err)
			}
			site.answers(cacheable)
			expect(t, get(b, "/"), "/ rendered 2", "isr; fwd=miss; fwd-status=200; stored")
			expect(t, get(b, "/"), "/ rendered 2", "isr; hit")
		})
	}
}
