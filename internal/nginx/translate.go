package nginx

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// maxRoutes bounds the routes of the file that is written.
const maxRoutes = 500

// A Note names a directive that the new file does not have, and tells what to do about it.
type Note struct {
	At, Directive string // where it is, and how it is written
	Text          string
}

// A Result is a translated configuration.
type Result struct {
	Text   string // of the file isr.yaml
	Notes  []Note // in the order of the configuration
	Routes int
}

// A translation is a configuration file in the making.
type translation struct {
	hosts    []string
	https    bool
	origins  []*origin
	routes   []*route
	notes    []Note
	settings []setting // of the top level
	servers  int       // that have routes
}

// An origin is a site behind the cache.
type origin struct {
	name    string
	urls    []string
	balance *setting // nil: requests are shared, as isr shares them by itself
	comment string
}

// A route is the caching of one location.
type route struct {
	host, match string
	from        *Directive
	origin      *origin
	settings    []setting
}

// A setting is one line of the file, with the reason for it.
type setting struct{ name, value, comment string }

// has reports whether settings have a name.
func has(settings []setting, name string) bool {
	return slices.ContainsFunc(settings, func(s setting) bool { return s.name == name })
}

// Translate returns isr's configuration for the caching of an nginx configuration; at is the file that was read.
func Translate(directives []*Directive, at string, today time.Time) (*Result, error) {
	t := &translation{}
	http := &scope{directives: directives}
	for _, d := range directives {
		if d.Name == "http" {
			http = &scope{directives: d.Block}
		}
	}
	servers := http.blocks("server")
	if len(servers) == 0 {
		return nil, fmt.Errorf("%s has no server; expected the main configuration, such as /etc/nginx/nginx.conf, or a file of a site", at)
	}
	for _, d := range servers {
		t.server(d, &scope{up: http, directives: d.Block})
	}
	if len(t.routes) == 0 {
		return nil, fmt.Errorf("%s has no location with proxy_pass, fastcgi_pass, uwsgi_pass or scgi_pass: there is no site to cache", at)
	}
	if t.servers == 1 {
		t.oneServer()
	}
	if len(t.routes) > maxRoutes {
		return nil, fmt.Errorf("%s has more than %d locations that reach a site", at, maxRoutes)
	}
	if !slices.ContainsFunc(t.routes, (*route).cached) {
		t.notes = slices.Insert(t.notes, 0, Note{at, "no proxy_cache", "this configuration caches nothing, so all routes are off. isr init URL looks at the site and proposes what to cache"})
	}
	t.store(http)
	t.preset(directives)
	return &Result{Text: t.text(at, today), Notes: t.notes, Routes: len(t.routes)}, nil
}

func (t *translation) note(d *Directive, format string, args ...any) {
	n := Note{d.at(), d.text(), fmt.Sprintf(format, args...)}
	if !slices.Contains(t.notes, n) {
		t.notes = append(t.notes, n)
	}
}

// A scope is a block with the blocks around it, whose directives apply where it has none of the same name.
type scope struct {
	up         *scope
	directives []*Directive
}

// all returns the directives of a name that apply: the directives of the innermost block that has any.
func (s *scope) all(name string) (all []*Directive) {
	for ; s != nil && len(all) == 0; s = s.up {
		all = s.blocks(name)
	}
	return all
}

// one returns the directive of a name that applies; nil if there is none.
func (s *scope) one(name string) *Directive {
	if all := s.all(name); len(all) > 0 && len(all[0].Args) > 0 {
		return all[0]
	}
	return nil
}

// blocks returns the directives of a name in this block alone.
func (s *scope) blocks(name string) (all []*Directive) {
	for _, d := range s.directives {
		if d.Name == name {
			all = append(all, d)
		}
	}
	return all
}

// server translates a server.
func (t *translation) server(server *Directive, s *scope) {
	before := len(t.routes)
	names := t.names(s)
	t.locations(s, names)
	if len(t.routes) == before {
		return // it redirects, or serves files
	}
	t.servers++
	for _, name := range names {
		if name != "" && !slices.Contains(t.hosts, name) {
			t.hosts = append(t.hosts, name)
		}
	}
	if len(names) == 1 && names[0] == "" {
		t.note(server, "it has no server_name that isr knows as a host: add its hosts to hosts")
	}
	for _, listen := range s.blocks("listen") {
		t.https = t.https || slices.Contains(listen.Args, "ssl") || slices.Contains(listen.Args, "quic")
	}
}

// oneServer makes the routes of the only server ones of all hosts.
func (t *translation) oneServer() {
	host := t.routes[0].host
	t.routes = slices.DeleteFunc(t.routes, func(r *route) bool { return r.host != host })
	for _, r := range t.routes {
		r.host = ""
	}
}

// names returns the hosts of a server; one that is empty if it has none.
func (t *translation) names(s *scope) (names []string) {
	for _, d := range s.blocks("server_name") {
		for _, name := range d.Args {
			switch {
			case name == "_" || name == "":
			case strings.HasPrefix(name, "."):
				names = append(names, name[1:], "*"+name)
			case strings.HasPrefix(name, "~"), strings.Contains(name[min(1, len(name)):], "*"), strings.Contains(name, "$"):
				t.note(d, "the name %s is not taken over: hosts are example.com, *.example.com, or *", name)
			default:
				names = append(names, strings.ToLower(name))
			}
		}
	}
	if len(names) == 0 {
		return []string{""}
	}
	return names
}

// locations translates the locations of a block, and of the locations in it.
func (t *translation) locations(s *scope, hosts []string) {
	for _, d := range s.blocks("location") {
		inner := &scope{up: s, directives: d.Block}
		t.locations(inner, hosts)
		if len(d.Args) > 0 && strings.HasPrefix(d.Args[0], "@") {
			continue // only internal redirects reach it
		}
		family, pass := passOf(inner)
		if pass == nil {
			continue // nginx answers itself
		}
		for _, match := range t.matches(d, family, cacheOf(inner, family) != nil) {
			t.route(&route{match: match, from: d, origin: t.origin(d, family, pass, inner), settings: t.caching(inner, family)}, hosts)
		}
	}
}

// route adds a route for each host, unless there is one with the same match.
func (t *translation) route(r *route, hosts []string) {
	for _, host := range hosts {
		one := *r
		one.host = host
		same := slices.IndexFunc(t.routes, func(other *route) bool { return other.host == one.host && other.match == one.match })
		switch {
		case strings.HasPrefix(host, "*"):
			one.host = ""
		case same >= 0:
			if !slices.Equal(t.routes[same].settings, one.settings) {
				t.note(r.from, "there is a route for %s already, of %s", cmp.Or(host+one.match, one.match), t.routes[same].from.at())
			}
			continue
		}
		t.routes = append(t.routes, &one)
	}
}

// families are the modules that pass requests on, by the prefixes of their directives.
func families() []string { return []string{"proxy", "fastcgi", "uwsgi", "scgi"} }

// passOf returns the directive by which a location passes requests on. It is not inherited.
func passOf(s *scope) (family string, pass *Directive) {
	for _, family := range families() {
		if all := s.blocks(family + "_pass"); len(all) > 0 && len(all[0].Args) > 0 {
			return family, all[0]
		}
	}
	return "", nil
}

// matches returns the patterns of a location.
func (t *translation) matches(d *Directive, family string, cached bool) []string {
	args := d.Args
	modifier := ""
	if len(args) == 2 {
		modifier, args = args[0], args[1:]
	}
	if len(args) != 1 {
		t.note(d, "it has no path")
		return nil
	}
	path := args[0]
	switch {
	case modifier == "~" || modifier == "~*":
		set, ok := resolve(path)
		switch {
		case !ok && family != "proxy":
			return []string{"/"} // try_files and index lead to the program that renders all pages
		case !ok:
			t.unresolved(d, cached)
			return nil
		}
		var all []string
		for _, path := range set.paths {
			all = append(all, pattern(path, set.exact))
		}
		return all
	case !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "{} "):
		t.note(d, "it is not taken over: a path of match begins with / and has no braces")
		return nil
	}
	if modifier != "=" && !strings.HasSuffix(path, "/") {
		t.note(d, "nginx compares the beginning of the path, so that %sx matches; isr compares whole segments: %[1]s and what is below it", path)
	}
	return []string{pattern(path, modifier == "=")}
}

// unresolved notes a regular expression that is not translated.
func (t *translation) unresolved(d *Directive, cached bool) {
	if cached {
		t.note(d, "isr has no regular expressions. Its requests get the settings of the other routes; for others, add a route for each path")
		return
	}
	t.note(d, "isr has no regular expressions, and nginx does not cache this location. Let its requests reach the site without isr, or add a route with cache: off for each path")
}

// pattern returns the match of a path. exact: and of nothing below it.
func pattern(path string, exact bool) string {
	path = strings.TrimSuffix(path, "/")
	switch {
	case exact && path == "":
		return "/{$}"
	case exact:
		return path
	}
	return path + "/"
}

// origin returns the site to which a location passes requests.
func (t *translation) origin(location *Directive, family string, pass *Directive, s *scope) *origin {
	if family != "proxy" {
		return t.addOrigin(origin{
			name: "nginx", urls: []string{"http://127.0.0.1:8081"},
			comment: "nginx, which speaks " + family + " with the site: let it answer isr there (docs/nginx.md)",
		})
	}
	target, err := url.Parse(pass.Args[0])
	if strings.Contains(pass.Args[0], "$") || err != nil || target.Hostname() == "" || strings.HasPrefix(target.Host, "unix") {
		t.note(pass, "write the URL of the site as url of the origin: isr needs http or https with a fixed address")
		return t.addOrigin(origin{name: "site", urls: []string{"http://127.0.0.1:3000"}, comment: "write the URL of the site here: see " + pass.at()})
	}
	if target.Path != "" && target.Path != location.Args[len(location.Args)-1] {
		t.note(pass, "nginx changes the path, and isr does not. If nginx changes it before isr, the match of this route is the changed path")
	}
	for _, upstream := range s.all("upstream") {
		if len(upstream.Args) == 1 && upstream.Args[0] == target.Host {
			return t.addOrigin(t.upstream(upstream, target.Scheme))
		}
	}
	return t.addOrigin(origin{name: originName(target.Hostname()), urls: []string{target.Scheme + "://" + target.Host}})
}

// upstream returns the origin of an upstream: its servers, the backups last.
func (t *translation) upstream(d *Directive, scheme string) origin {
	var first, backups []string
	for _, server := range (&scope{directives: d.Block}).blocks("server") {
		switch {
		case len(server.Args) == 0 || slices.Contains(server.Args, "down"):
		case strings.HasPrefix(server.Args[0], "unix:"):
			t.note(server, "isr reaches a site by TCP: let it listen on a port of 127.0.0.1")
		case slices.Contains(server.Args, "backup"):
			backups = append(backups, scheme+"://"+server.Args[0])
		default:
			first = append(first, scheme+"://"+server.Args[0])
		}
	}
	o := origin{name: originName(d.Args[0]), urls: append(first, backups...)}
	if len(backups) > 0 && len(o.urls) > 1 {
		o.balance = &setting{"balance", "first", "the others are for its failure"}
	}
	if len(backups) > 0 && len(first) > 1 {
		t.note(d, "nginx distributes requests among the servers that are no backup; isr, with balance: first, sends them to the first that is up. To share them, remove the backups from url, and the line balance")
	}
	if len(o.urls) == 0 {
		o.urls, o.comment = []string{"http://127.0.0.1:3000"}, "write the URL of the site here: see "+d.at()
	}
	return o
}

// addOrigin returns the origin with these URLs, and adds it if there is none.
func (t *translation) addOrigin(o origin) *origin {
	for _, other := range t.origins {
		if slices.Equal(other.urls, o.urls) {
			return other
		}
	}
	name := o.name
	for n := 2; slices.ContainsFunc(t.origins, func(other *origin) bool { return other.name == o.name }); n++ {
		o.name = fmt.Sprint(name, "-", n)
	}
	t.origins = append(t.origins, &o)
	return &o
}

// originName makes a name of lower-case letters, digits and hyphens that begins with a letter.
func originName(text string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(text))
	name = strings.Trim(name[:min(len(name), 30)], "-")
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		return "site"
	}
	return name
}

// store takes over the size of the cache.
func (t *translation) store(http *scope) {
	for _, family := range families() {
		for _, d := range http.blocks(family + "_cache_path") {
			for _, arg := range d.Args {
				name, value, _ := strings.Cut(arg, "=")
				if bytes, ok := size(value); ok && name == "max_size" {
					t.top(setting{"store", "{disk: " + bytes + "}", comment(d)})
				}
			}
		}
	}
}

// preset names WordPress if the configuration knows it. Its preset has what such a configuration decides by variables: the
// paths and cookies that bypass the cache.
func (t *translation) preset(directives []*Directive) {
	for _, d := range directives {
		if text := d.text(); strings.Contains(text, "wp-admin") || strings.Contains(text, "wordpress_logged_in") {
			t.top(setting{"preset", "wordpress", comment(d)})
			return
		}
		t.preset(d.Block)
	}
}

// top adds a setting of the top level, unless there is one of the same name.
func (t *translation) top(s setting) {
	if !has(t.settings, s.name) {
		t.settings = append(t.settings, s)
	}
}
