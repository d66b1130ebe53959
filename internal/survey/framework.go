package survey

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/facetheory/isr/internal/visit"
)

// A Framework is software that renders pages.
type Framework struct {
	Name   string // as people write it
	Preset string // of isr; empty if there is none
	Trace  string // how it was recognised
}

// A sign is a trace that software leaves in a response.
type sign struct {
	header string // the field, in canonical form; "Set-Cookie" for the name of a cookie; empty for the body
	text   string // which the field begins with, or the body contains; empty for any field
}

// known is software by its signs. One is enough: each is a name that no other software has by chance. The first
// framework that has one is taken, so that software which runs on other software comes first.
var known = []struct {
	name, preset string
	signs        []sign
}{
	{"WordPress", "wordpress", []sign{{"Link", "https://api.w.org/"}, {"", "/wp-content/"}, {"", "/wp-includes/"}, {"X-Redirect-By", "WordPress"}}},
	{"Next.js", "next", []sign{{"X-Powered-By", "Next.js"}, {"X-Nextjs-Cache", ""}, {"X-Nextjs-Prerender", ""}, {"", "/_next/static/"}}},
	{"Nuxt", "nuxt", []sign{{"X-Powered-By", "Nuxt"}, {"", `id="__nuxt"`}, {"", `"/_nuxt/`}}},
	{"SvelteKit", "sveltekit", []sign{{"X-Sveltekit-Page", ""}, {"", "/_app/immutable/"}, {"", "__sveltekit_"}}},
	{"React Router", "react-router", []sign{{"", "__reactRouterContext"}, {"", "__remixContext"}}},
	{"Astro", "astro", []sign{{"", "/_astro/"}, {"", "<astro-island"}, {"", `content="Astro v`}}},
	{"Laravel", "laravel", []sign{{"Set-Cookie", "laravel_session"}, {"Set-Cookie", "XSRF-TOKEN"}, {"", "window.Laravel"}, {"", "/livewire/livewire"}}},
	{"Rails", "rails", []sign{{"", `name="csrf-param"`}, {"", "/rails/active_storage/"}}},
	{"Django", "django", []sign{{"Set-Cookie", "csrftoken"}, {"", "csrfmiddlewaretoken"}, {"", "/static/admin/"}}},
	{"Drupal", "", []sign{{"X-Generator", "Drupal"}, {"X-Drupal-Cache", ""}, {"X-Drupal-Dynamic-Cache", ""}}},
	{"Joomla", "", []sign{{"", `content="Joomla!`}}},
	{"TYPO3", "", []sign{{"", `content="TYPO3`}}},
	{"Ghost", "", []sign{{"", `content="Ghost `}}},
	{"Symfony", "", []sign{{"X-Debug-Token", ""}, {"", "data-symfony-"}}},
	{"Phoenix", "", []sign{{"", "data-phx-"}}},
	{"Express", "", []sign{{"X-Powered-By", "Express"}}},
	{"Flask", "", []sign{{"Server", "Werkzeug"}}},
	{"ASP.NET", "", []sign{{"X-Powered-By", "ASP.NET"}, {"X-Aspnet-Version", ""}}},
	{"PHP", "", []sign{{"X-Powered-By", "PHP"}, {"Set-Cookie", "PHPSESSID"}}},
}

// traces are the signs that pages had, with a text for people each.
type traces map[sign]string

// add notes the traces of a response.
func (t *traces) add(a *visit.Answer) {
	if *t == nil {
		*t = traces{}
	}
	cookies := (&http.Response{Header: a.Header}).Cookies()
	for _, f := range known {
		for _, s := range f.signs {
			if text := s.in(a, cookies); text != "" && (*t)[s] == "" {
				(*t)[s] = text
			}
		}
	}
}

// in returns the trace of a sign in a response; empty if it has none.
func (s sign) in(a *visit.Answer, cookies []*http.Cookie) string {
	switch s.header {
	case "":
		if a.IsHTML() && bytes.Contains(a.Body, []byte(s.text)) {
			return "its pages have " + s.text
		}
	case "Set-Cookie":
		if slices.ContainsFunc(cookies, func(c *http.Cookie) bool { return c.Name == s.text }) {
			return "it sets the cookie " + s.text
		}
	default:
		for _, value := range a.Header[s.header] {
			if strings.Contains(value, s.text) {
				return fmt.Sprintf("%s: %.60s", s.header, value)
			}
		}
	}
	return ""
}

// recognise returns the framework of which there are traces; zero if there are none.
func recognise(t traces) Framework {
	for _, f := range known {
		for _, s := range f.signs {
			if text := t[s]; text != "" {
				return Framework{f.name, f.preset, text}
			}
		}
	}
	return Framework{}
}
