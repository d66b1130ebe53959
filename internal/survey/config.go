package survey

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/facetheory/isr/internal/wellknown"
)

// personal are parameters of links that are of one visitor or one moment, or have any value. Requests with them
// should bypass the cache, and so they are not proposed.
var personal = []string{
	"_", "auth", "code", "csrf", "email", "from", "hash", "id_token", "key", "next", "nonce", "otp", "password", "q", "query", "redirect", "redirect_to",
	"redirect_uri", "ref", "reply", "replytocom", "return", "returnTo", "return_to", "s", "search", "session", "sid", "sig", "signature", "state", "token", "url",
	"user", "v", "ver", "version",
}

// sessionCookie matches names of cookies that identify visitors. Ignoring one of these could show a visitor the page of
// another one.
var sessionCookie = regexp.MustCompile(`(?i)sess|sid$|auth|token|login|user|cart|basket|jwt`)

// A Preset is what the preset of the framework sets for all routes.
type Preset struct {
	Query, IgnoreCookies []string
	Window               bool // it has a freshness window for pages that state none
}

// Config returns the text of a configuration file for the site, with a comment on each choice.
func (s *Site) Config(preset Preset, today time.Time) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	software := ""
	if s.Framework.Name != "" {
		software = " (" + s.Framework.Name + ")"
	}
	line("# isr in front of %s%s. isr init wrote this file on %s.", s.Origin, software, today.Format(time.DateOnly))
	line("# After a change: isr config check. What isr does with a request, and why: isr explain URL.")
	line("# All fields: docs/configuration.md")
	if s.Framework.Preset != "" {
		line("\n# Settings for %s: isr config preset %[2]s prints them.\npreset: %[2]s", s.Framework.Name, s.Framework.Preset)
	}
	line("\nlisten:\n  - address: 127.0.0.1:8080")
	s.writeHosts(line)
	line("\norigins:\n  site:\n    url: %q", s.Origin.String())
	s.writeDefaults(line, preset)
	line("\n# Links with which editors see unpublished content: docs/drafts.md")
	line("# draft: {secrets: [{file: /run/secrets/isr-draft}]}")
	s.writePurges(line)
	return b.String()
}

func (s *Site) writeHosts(line func(string, ...any)) {
	off := "# "
	switch {
	case s.Redirects:
		off = ""
		line("\n# The public host. The site redirects requests for other hosts to it.")
	default:
		line("\n# The public hosts, once visitors reach the site through isr. Until then isr answers for localhost.")
	}
	line("%shosts: [%s]", off, cmp.Or(s.Host, "example.com"))
	if s.HTTPS || !s.Redirects {
		line("# A proxy in front of isr has the certificate; if isr is to have it: docs/public.md.")
		line("%spublic_scheme: https", off)
	}
}

// writePurges writes how pages are purged when content changes, as the framework of the site does it.
func (s *Site) writePurges(line func(string, ...any)) {
	hook, target := "cms", fmt.Sprintf(`"url:https://%s/{payload.path}"`, cmp.Or(s.Host, "example.com"))
	line("\n# Purges when content changes, so that freshness windows may be long.")
	switch s.Framework.Preset {
	case "next":
		line("# revalidateTag and revalidatePath reach isr by a cache handler: docs/sites.md, \"Revalidation and deployments\".\n# It needs the token in isr-data/admin.token.")
	case "django":
		line("# A model that is saved purges its pages by purge_on_change: docs/python.md. It needs the token in isr-data/admin.token.")
	case "wordpress":
		hook, target = "wordpress", `"tag:{payload.tags.*}", "url:{payload.urls.*}"`
		line("# WordPress sends them by the plugin of integrations/wordpress (docs/wordpress.md). It shares a secret with isr:")
	}
	if hook == "cms" {
		line("# Other systems send webhooks (docs/webhooks.md), or run isr purge URL. They share a secret with isr:")
	}
	line("#   openssl rand -hex 32 >isr-hook.secret")
	line("# triggers:\n#   hooks:\n#     %s:\n#       provider: generic\n#       secrets: {file: isr-hook.secret}\n#       targets: [%s]", hook, target)
}

func (s *Site) writeDefaults(line func(string, ...any), preset Preset) {
	stated, silent := false, 0
	for _, p := range s.Pages {
		if p.Stated > 0 {
			stated = true
		} else if p.Refused == "" {
			silent++
		}
	}
	line("\n# Settings of all routes that do not set them themselves.\ndefaults:")
	switch {
	case preset.Window:
		line("  # revalidate: 1m # the preset has a freshness window for pages that state none")
	case stated && silent == 0:
		line("  # revalidate: 1m # freshness window of pages that state none; each page that was visited and may be stored states its own")
	case silent > 0:
		line("  revalidate: 1m # freshness window of pages that state none, as %d of the %d that were visited", silent, len(s.Pages))
	default:
		line("  revalidate: 1m # freshness window of pages that state none")
	}
	line("  stale: 1d # an expired page is served while it is regenerated, and while the site fails")
	line("  history: 3 # generations of a page that are kept for isr rollback")
	if names := s.proposed(preset.Query); len(names) > 0 {
		line("  # Parameters in links of the site. Pages depend on them; requests with others bypass the cache.")
		line("  query: [%s]", strings.Join(quoted(names), ", "))
	}
	for _, c := range s.SetCookies() {
		if slices.Contains(preset.IgnoreCookies, c.Name) {
			continue
		}
		line("  # %d of the %d visited pages set the cookie %s. A page that sets a cookie is not stored, and visitors who have the", c.Pages, len(s.Pages), c.Name)
		if sessionCookie.MatchString(c.Name) {
			line("  # cookie bypass the cache. It looks like a session: let the site begin it at the login, or with the first content of a cart.")
			continue
		}
		line("  # cookie bypass the cache. If pages do not depend on it, let the site set it later, and ignore it here:")
		line("  # ignore_cookies: [%q]", c.Name)
	}
	line("  # Pages that suddenly lose half of their content, or have the text of an error, can be kept out: docs/reject.md")
	line("  # reject: {smaller_than: 50%%}")
}

// proposed returns the parameters that the file declares.
func (s *Site) proposed(declared []string) (names []string) {
	for _, name := range s.Parameters {
		if wellknown.Parameter(name) == "" && !slices.Contains(declared, name) && !slices.Contains(personal, name) && len(names) < 20 {
			names = append(names, name)
		}
	}
	return names
}

// A SetCookie is a cookie that pages set for visitors who have none.
type SetCookie struct {
	Name  string
	Pages int
}

// SetCookies returns the cookies that pages set, and that isr does not ignore, sorted by name.
func (s *Site) SetCookies() (all []SetCookie) {
	pages := map[string]int{}
	for _, p := range s.Pages {
		for _, name := range p.Cookies {
			pages[name]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		all = append(all, SetCookie{name, pages[name]})
	}
	return all
}

func quoted(names []string) []string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = fmt.Sprintf("%q", name)
	}
	return all
}
