package nginx

import (
	"slices"
	"strings"
	"time"

	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/units"
)

// comment returns the comment of what was translated from a directive.
func comment(d *Directive) string {
	return canonical.Shown(oneLine(d.at() + ": " + d.text()))
}

// cached reports whether a route caches.
func (r *route) cached() bool {
	return !has(r.settings, "cache")
}

// cacheOf returns the directive that caches in a block; nil if there is none.
func cacheOf(s *scope, family string) *Directive {
	d := s.one(family + "_cache")
	if d == nil || d.Args[0] == "off" {
		return nil
	}
	return d
}

// caching translates the caching of a block.
func (t *translation) caching(s *scope, family string) []setting {
	if cacheOf(s, family) == nil {
		off := setting{name: "cache", value: "off", comment: "nginx does not cache it"}
		if d := s.one(family + "_cache"); d != nil {
			off.comment = comment(d)
		}
		return []setting{off}
	}
	c := &caching{translation: t, scope: s, prefix: family + "_"}
	c.windows()
	c.staleness()
	c.key()
	c.bypass()
	c.limits()
	c.differences()
	return c.settings
}

// A caching is the caching of a block in the making.
type caching struct {
	*translation
	scope    *scope
	prefix   string // of the directives
	settings []setting
}

func (c *caching) set(name, value, comment string) {
	c.settings = append(c.settings, setting{name, value, comment})
}

func (c *caching) one(name string) *Directive   { return c.scope.one(c.prefix + name) }
func (c *caching) all(name string) []*Directive { return c.scope.all(c.prefix + name) }

// windows translates the times of responses that state none.
func (c *caching) windows() {
	negative := []string{}
	for _, d := range c.all("cache_valid") {
		if len(d.Args) == 0 {
			continue
		}
		window, ok := duration(d.Args[len(d.Args)-1])
		if !ok {
			c.note(d, "its time is not taken over: expected one like 10m")
			continue
		}
		codes := d.Args[:len(d.Args)-1]
		if len(codes) == 0 {
			codes = []string{"200", "301", "302"}
		}
		for _, code := range codes {
			name := code
			switch code {
			case "200", "any":
				c.window(window, d)
				continue
			case "301", "302":
				name = "redirect"
			case "404", "410":
			default:
				c.note(d, "isr keeps a response with status %s only if the response states how long it is fresh (statuses)", code)
				continue
			}
			if entry := name + ": " + units.Duration(window); !slices.ContainsFunc(negative, func(s string) bool { return strings.HasPrefix(s, name+":") }) {
				negative = append(negative, entry)
			}
		}
	}
	if len(negative) > 0 {
		c.set("negative", "{"+strings.Join(negative, ", ")+"}", "")
	}
	if !has(c.settings, "revalidate") {
		c.set("revalidate", "0s", "only responses that state how long they are fresh, as in nginx without "+c.prefix+"cache_valid")
	}
}

func (c *caching) window(d time.Duration, from *Directive) {
	if !has(c.settings, "revalidate") {
		c.set("revalidate", units.Duration(d), comment(from))
	}
}

// staleness translates when an expired page may be served. nginx does so until the page is removed, which
// it is after inactive without a request.
func (c *caching) staleness() {
	d := c.one("cache_use_stale")
	if d == nil || d.Args[0] == "off" {
		c.set("stale", "0s", "nginx serves no expired page; with 1d, visitors do not wait for a new one, and see no error of the site")
		return
	}
	window := c.inactive()
	switch {
	case slices.Contains(d.Args, "updating"):
		c.set("stale", units.Duration(window), comment(d))
	default:
		c.set("stale", "0s", "")
		c.set("stale_if_error", units.Duration(window), comment(d))
	}
}

// inactive returns how long the pages of the cache are kept without a request.
func (c *caching) inactive() time.Duration {
	zone := c.one("cache").Args[0]
	for _, d := range c.all("cache_path") {
		if !slices.ContainsFunc(d.Args, func(arg string) bool { return strings.HasPrefix(arg, "keys_zone="+zone+":") }) {
			continue
		}
		for _, arg := range d.Args {
			if value, found := strings.CutPrefix(arg, "inactive="); found {
				if window, ok := duration(value); ok {
					return window
				}
			}
		}
	}
	return 10 * time.Minute // nginx's default
}

// key translates the parts of the cache key that isr does not have by itself.
func (c *caching) key() {
	d := c.one("cache_key")
	if d == nil && c.prefix == "proxy_" {
		c.set("# query", "[page]", "nginx has all parameters in its key. Declare those that pages depend on; requests with others bypass the cache")
		return
	}
	if d == nil {
		return // nginx demands a key from the other modules
	}
	var query, headers, cookies []string
	whole := false
	for _, name := range variables(strings.Join(d.Args, " ")) {
		switch {
		case slices.Contains([]string{"scheme", "host", "http_host", "server_name", "server_port", "proxy_host", "uri", "document_uri", "request_method"}, name):
		case slices.Contains([]string{"request_uri", "args", "is_args", "query_string"}, name):
			whole = true
		case strings.HasPrefix(name, "arg_"):
			query = append(query, name[len("arg_"):])
		case strings.HasPrefix(name, "cookie_"):
			cookies = append(cookies, name[len("cookie_"):])
		case strings.HasPrefix(name, "http_"):
			headers = append(headers, header(name[len("http_"):]))
		default:
			c.note(d, "isr does not know $%s: declare what pages depend on as query, headers or cookies", name)
		}
	}
	if whole {
		c.set("# query", "[page]", comment(d)+". Declare the parameters that pages depend on; requests with others bypass the cache")
	} else {
		c.list("query", query, comment(d))
		c.set("ignore_query", `["*"]`, "the key has no other parameter")
	}
	c.list("headers", headers, comment(d))
	for _, name := range cookies {
		c.note(d, "isr needs the values that a cookie may have, cookies: {%s: [a, b]}: any other value would make a page of its own. Until then requests with the cookie bypass the cache", name)
	}
}

// bypass translates which requests are not answered from the cache.
func (c *caching) bypass() {
	var cookies []string
	conditions := append(slices.Clone(c.all("cache_bypass")), c.all("no_cache")...)
	obey := ""
	for _, d := range conditions {
		for _, name := range variables(strings.Join(d.Args, " ")) {
			switch {
			case name == "http_authorization" || strings.HasPrefix(name, "arg_"):
				// isr passes these requests anyway.
			case name == "http_pragma" || name == "http_cache_control":
				obey = comment(d)
			case strings.HasPrefix(name, "cookie_"):
				cookies = append(cookies, name[len("cookie_"):])
			default:
				c.note(d, "isr does not know $%s. Requests with undeclared parameters, cookies or Authorization bypass the cache; for paths, add a route with cache: off", name)
			}
		}
	}
	if obey != "" {
		c.set("request_directives", "obey", obey)
	}
	if len(cookies) == 0 {
		c.set("# ignore_cookies", `["*"]`, "nginx answers visitors with cookies from the cache. isr does so only for cookies that are listed here or well-known")
		return
	}
	ignored := []string{"*"}
	for _, name := range cookies {
		if name = "!" + name; !slices.Contains(ignored, name) {
			ignored = append(ignored, name)
		}
	}
	c.list("ignore_cookies", ignored, comment(conditions[0])+". Only these cookies bypass the cache")
}

// limits translates time limits.
func (c *caching) limits() {
	if d := c.one("read_timeout"); d != nil {
		if limit, ok := duration(d.Args[0]); ok && limit > 0 {
			c.set("render_timeout", units.Duration(limit), comment(d))
		}
	}
	if d := c.one("cache_min_uses"); d != nil && d.Args[0] != "1" {
		c.top(setting{"min_uses", d.Args[0], comment(d)})
	}
	if len(c.all("cache_purge")) > 0 {
		c.top(setting{"purge", "{method: true, from: [loopback]}", comment(c.all("cache_purge")[0])})
	}
}

// differences notes what isr does not do, or does in another way.
func (c *caching) differences() {
	for _, d := range c.all("ignore_headers") {
		for _, name := range d.Args {
			switch strings.ToLower(name) {
			case "set-cookie":
				c.note(d, "isr never stores a response that sets a cookie: every visitor would get that cookie. Let the site not set it on cacheable pages")
			case "cache-control", "expires":
				c.note(d, "isr obeys %s. Let the site state s-maxage or CDN-Cache-Control, or remove the field behind isr", name)
			case "vary":
				c.note(d, "isr never serves a page to a request that its Vary excludes: declare headers, or vary: auto")
			}
		}
	}
	for _, d := range c.all("cache_methods") {
		if slices.Contains(d.Args, "POST") {
			c.note(d, "isr stores responses to GET alone, and answers HEAD from them")
		}
	}
	for _, name := range []string{"auth_basic", "auth_request", "auth_jwt", "allow", "deny"} {
		if d := c.scope.one(name); d != nil && d.Args[0] != "off" && !slices.Equal([]string{d.Name, d.Args[0]}, []string{"allow", "all"}) {
			c.note(d, "nginx must go on to check this in front of isr, which answers everybody who reaches it")
		}
	}
	for _, name := range []string{"slice", c.prefix + "store", "sub_filter", "ssi"} {
		if d := c.scope.one(name); d != nil && d.Args[0] != "off" && d.Args[0] != "0" {
			c.note(d, "isr does not do this; nginx can in front of isr")
		}
	}
}

// list sets a list of names, if there are any.
func (c *caching) list(name string, names []string, comment string) {
	if len(names) == 0 {
		return
	}
	c.set(name, list(names), comment)
}

// variables returns the names of the variables in a text: $name and ${name}.
func variables(text string) (names []string) {
	for {
		_, rest, found := strings.Cut(text, "$")
		if !found {
			return names
		}
		rest = strings.TrimPrefix(rest, "{")
		name := rest
		if end := strings.IndexFunc(rest, func(r rune) bool {
			return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
		}); end >= 0 {
			name = rest[:end]
		}
		if text = rest[len(name):]; name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
}

// header returns the name of a header by the name of its variable: accept_language.
func header(variable string) string {
	words := strings.Split(variable, "_")
	for i, word := range words {
		if word != "" {
			words[i] = strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return strings.Join(words, "-")
}
