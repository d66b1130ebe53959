package config

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/draft"
	"github.com/facetheory/isr/internal/notices"
	"github.com/facetheory/isr/internal/peer"
	"github.com/facetheory/isr/internal/routing"
	"github.com/facetheory/isr/internal/telemetry/accesslog"
	"github.com/facetheory/isr/internal/units"
)

// validate reports combinations of fields that are impossible, or in which one has no effect.
// It skips rules about fields that have errors, of which theirs may be consequences. A rule may report errors of
// fields that others are about: what is broken is what was broken before.
func (f *File) validate(d *decoder) {
	broken := d.broken
	for _, rule := range []struct {
		check func(*decoder)
		about []string
	}{
		{f.validateListeners, nil},
		{f.validateACME, []string{"listen", "hosts", "acme", "store.table"}},
		{f.validateStore, []string{"store.table", "store.bucket", "store.disk"}},
		{f.validateDiskCache, []string{"store.cache_dir", "store.cache_size"}},
		{f.validateAdmin, []string{"admin", "store.table", "purge"}},
		{f.validatePeer, []string{"peer", "store.table"}},
		{f.validateTriggers, []string{"triggers", "admin", "store.table"}},
		{f.validateWarm, []string{"warm", "hosts"}},
		{f.validateNotices, []string{"notices"}},
		{f.validateRegenerate, []string{"regenerate", "store.table"}},
		{f.validateDownstream, []string{"downstream"}},
		{f.validateCountry, []string{"listen", "country_header"}},
		{f.validateAccessLog, []string{"access_log"}},
		{f.validateDynamoDB, []string{"dynamodb", "store.table"}},
		{f.validateProtection, []string{"allow", "deny"}},
		{f.validateOrigins, nil},
		{f.validateRoutes, nil},
		{f.validateRedirects, []string{"redirects", "hosts"}},
	} {
		d.broken = maps.Clone(broken)
		if !d.isBroken(rule.about...) {
			rule.check(d)
		}
	}
}

// has reports whether the file sets the field at a path.
func (d *decoder) has(path string) bool {
	_, ok := d.sources[path]
	return ok
}

func (f *File) validateListeners(d *decoder) {
	known := make(map[string]int)
	for i, l := range f.Listen {
		at := fmt.Sprintf("listen[%d]", i)
		if d.isBroken(at) {
			continue
		}
		if first, twice := known[l.Address]; twice {
			d.failAt(at+".address", "%s is the address of listen[%d] too; give another one", l.Address, first)
		}
		if !strings.HasSuffix(l.Address, ":0") { // which is a free port each time
			known[l.Address] = i
		}
		if l.ProxyProtocol && len(l.TrustedProxies) == 0 {
			d.failAt(at+".proxy_protocol", "needs trusted_proxies: otherwise any client could claim any address")
		}
		if l.ForwardedHost && len(l.TrustedProxies) == 0 {
			d.failAt(at+".trust_forwarded_host", "needs trusted_proxies: the field of other peers is never read")
		}
		if l.H2C && l.Encrypted() {
			d.failAt(at+".h2c", "is HTTP/2 without TLS, and this listener has TLS, with which HTTP/2 needs no setting; remove h2c")
		}
		if len(l.TLS) > 0 && l.ACME {
			d.failAt(at+".acme", "and tls exclude each other in a listener; remove one of them, or use two listeners")
		}
		l.validateTLSPolicy(d, at+".tls_policy")
		l.validateHTTP3(d, at)
		if len(f.Hosts) == 0 && !d.isBroken("hosts") && !isLoopback(l.Address) {
			d.failAt(at+".address", "%s is reachable from other machines and needs hosts, since each name would be cached as a site of its own; add hosts: [example.com]", l.Address)
		}
	}
	for path, address := range map[string]string{"health.address": f.Health.Address, "metrics.address": f.Metrics.Address, "admin.address": f.Admin.Address, "dynamodb.address": f.DynamoDB.Address} {
		if first, taken := known[address]; taken {
			d.failAt(path, "%s is the address of listen[%d] too; give another one", address, first)
		}
	}
	if len(f.Purge.From) > 0 && !f.Purge.Method && !d.isBroken("purge.method") {
		d.failAt("purge.from", "has no effect without method: true")
	}
}

// validateCountry checks where the countries of routes come from.
func (f *File) validateCountry(d *decoder) {
	proxies := slices.ContainsFunc(f.Listen, func(l Listener) bool { return len(l.TrustedProxies) > 0 })
	if f.CountryHeader != "" && !proxies {
		d.failAt("country_header", "needs trusted_proxies of a listener: otherwise any visitor could choose a country")
	}
	for i, r := range f.Routes {
		if len(r.Country) > 0 && f.CountryHeader == "" {
			d.failSetting(fmt.Sprintf("routes[%d]", i), "country", "needs country_header, the header in which trusted_proxies state the country of a visitor, such as CF-IPCountry")
		}
	}
}

func (f *File) validateAccessLog(d *decoder) {
	a := f.AccessLog
	if a.Path != "" && a.Syslog != "" {
		d.failAt("access_log.syslog", "and path exclude each other; remove one of them")
	}
	if err := accesslog.CheckFields(a.Fields); err != nil {
		d.failAt("access_log.fields", "%v", err)
	}
}

func (f *File) validateStore(d *decoder) {
	s := f.Store
	switch {
	case s.Table != "" && s.Bucket == "":
		d.failAt("store.table", "needs bucket for the stored bodies, which all servers read")
	case s.Bucket != "" && s.Table == "":
		d.failAt("store.bucket", "needs table for the metadata, which all servers read")
	case s.Table == "":
		for _, name := range []string{"region", "dynamodb_endpoint", "s3_endpoint", "create_table", "cache_dir"} {
			if d.has("store." + name) {
				d.failAt("store."+name, "has no effect without table and bucket")
			}
		}
	case s.Disk != nil:
		d.failAt("store.disk", "bounds the embedded store and cannot be combined with table; use a lifecycle rule of the bucket, and retention")
	}
}

func (f *File) validateDiskCache(d *decoder) {
	if s := f.Store; s.CacheSize != nil && s.CacheDir == "" {
		d.failAt("store.cache_size", "has no effect without cache_dir")
	}
}

func (f *File) validatePeer(d *decoder) {
	switch {
	case f.Peer.Address == "" && !f.Peer.Secret.IsZero():
		d.failAt("peer.secret", "has no effect without address")
	case f.Peer.Address == "":
		return
	case f.Store.Table == "":
		d.failAt("peer.address", "needs store.table: the embedded store has one server")
	}
	if err := peer.CheckAddress(f.Peer.Address); f.Peer.Address != "" && err != nil {
		d.failAt("peer.address", "%v", err)
	}
}

func (f *File) validateAdmin(d *decoder) {
	a := f.Admin
	switch {
	case a.Address == "none" && !a.Token.IsZero() && !f.Purge.Method:
		d.failAt("admin.token", "has no effect without an address")
	case a.Address == "" || a.Address == "none" || !a.Token.IsZero():
	case f.Store.Table != "":
		d.failAt("admin.address", "needs token with store.table: all servers share it")
	case !isLoopback(a.Address):
		d.failAt("admin.address", "%s is reachable from other machines; set token, or listen on 127.0.0.1", a.Address)
	}
	if a.Address == "none" && !a.ReadToken.IsZero() {
		d.failAt("admin.read_token", "has no effect without an address")
	}
	if f.Purge.Method && len(f.Purge.From) == 0 && f.Store.Table != "" && a.Token.IsZero() {
		d.failAt("purge.method", "needs admin.token with store.table, which all servers share; or from")
	}
}

func (f *File) validateTriggers(d *decoder) {
	t := f.Triggers
	onAdmin := f.Admin.Address != "none" && (f.Store.Table == "" || !f.Admin.Token.IsZero())
	switch {
	case t.Public && len(t.Hooks) == 0:
		d.failAt("triggers.public", "has no effect without hooks")
	case len(t.Hooks) > 0 && !onAdmin && !t.Public:
		d.failAt("triggers.hooks", "have no address: set admin.address and admin.token, or public: true")
	}
	for name, h := range t.Hooks {
		at := "triggers.hooks." + name
		if len(h.Targets) == 0 {
			d.failAt(at+".targets", "is empty; name what the hook purges, like [\"tag:product-{payload.id}\"]")
		}
		if len(h.Secrets) == 0 {
			d.failAt(at+".secrets", "is empty; give the secret of the provider, like [\"${HOOK_SECRET}\"]")
		}
	}
	q := t.Queue
	for _, name := range []string{"targets", "hard"} {
		if q.URL == "" && d.has("triggers.queue."+name) {
			d.failAt("triggers.queue."+name, "has no effect without url")
		}
	}
	if q.URL != "" && q.Hard && len(q.Targets) == 0 {
		d.failAt("triggers.queue.hard", `needs targets; a purge request has its own "mode"`)
	}
}

func (f *File) validateWarm(d *decoder) {
	if len(f.Warm.Sitemap) == 0 {
		for _, name := range []string{"every", "rate", "pages"} {
			if d.has("warm." + name) {
				d.failAt("warm."+name, "has no effect without sitemap; add sitemap: https://example.com/sitemap.xml")
			}
		}
	}
	for _, text := range f.Warm.Sitemap {
		u, err := url.Parse(text)
		if err != nil {
			continue // reported as its value was decoded
		}
		if host, _ := canonical.Host(u.Host); !f.servesHost(host) && !f.servesHost(withoutPort(u.Host)) {
			d.failAt("warm.sitemap", "the host %s of %s is not served; add it to hosts, or give a sitemap of a host that is", u.Host, text)
		}
	}
}

func (f *File) validateNotices(d *decoder) {
	if len(f.Notices.To) == 0 {
		for _, name := range []string{"after", "repeat", "console"} {
			if d.has("notices." + name) {
				d.failAt("notices."+name, "has no effect without a destination; add to: {ops: {url: {file: /run/secrets/slack-url}}}")
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Notices.To)) {
		c := f.Notices.To[name]
		path := "notices.to." + name
		if c.Format == "slack" && !c.Secret.IsZero() {
			d.failAt(path+".secret", "has no effect with format: slack, which is not signed; remove it, or use format: webhook")
		}
		if c.URL.IsZero() || c.URL.File() != "" {
			continue // reported, or it is read when it is used
		}
		if address, err := c.URL.Read(); err == nil && notices.ValidURL(address) != nil {
			d.failAt(path+".url", "%v", notices.ValidURL(address))
		}
	}
}

func (f *File) validateRegenerate(d *decoder) {
	if f.Regenerate.Queue != "" && f.Store.Table == "" {
		d.failAt("regenerate.queue", "needs store.table: workers cannot use an embedded store")
	}
}

func (f *File) validateDownstream(d *decoder) {
	for _, name := range slices.Sorted(maps.Keys(f.Downstream)) {
		c := f.Downstream[name]
		kind, _, _ := strings.Cut(c.To, ":")
		needs := kind == "fastly" || kind == "cloudflare" || kind == "isr"
		switch {
		case kind == "cloudfront" && !c.Token.IsZero():
			d.failAt("downstream."+name+".token", "has no effect with cloudfront, which uses the credentials of AWS; remove it")
		case needs && c.Token.IsZero():
			d.failAt("downstream."+name+".to", "%s needs token", kind)
		}
	}
}

func (f *File) validateDynamoDB(d *decoder) {
	a := f.DynamoDB
	keys := !a.AccessKey.IsZero() || !a.SecretKey.IsZero()
	switch {
	case a.Address == "" && keys:
		d.failAt("dynamodb.address", "is missing; the keys have no effect without it")
	case a.Address == "":
	case f.Store.Table != "":
		d.failAt("dynamodb.address", "serves the embedded store and cannot be combined with store.table; other programs can use the table on DynamoDB itself")
	case a.AccessKey.IsZero() != a.SecretKey.IsZero():
		d.failAt("dynamodb.address", "needs both access_key and secret_key, or none")
	case !keys && !isLoopback(a.Address):
		d.failAt("dynamodb.address", "%s is reachable from other machines and needs access_key and secret_key", a.Address)
	}
}

func (f *File) validateOrigins(d *decoder) {
	if len(f.Origins) == 0 && !d.isBroken("origins") {
		d.failAt("origins", "missing; name the site behind the cache, like\norigins:\n  site: {url: http://127.0.0.1:3000}")
	}
	for _, name := range slices.Sorted(maps.Keys(f.Origins)) {
		o := f.Origins[name]
		at := "origins." + name
		if d.isBroken(at) {
			continue
		}
		switch {
		case len(o.URL) == 0 && !o.Demo:
			d.failAt(at+".url", "missing; give the URL of the site, like http://127.0.0.1:3000")
		case len(o.URL) > 0 && o.Demo:
			d.failAt(at+".demo", "and url exclude each other; remove one of them")
		case o.Demo && o.Health.Path != "":
			d.failAt(at+".health.path", "has no effect with demo")
		}
		o.validateBalance(d, at)
		f.validateSticky(d, name)
		o.validateTLS(d, at+".tls")
		for _, field := range []string{"interval", "timeout", "failures"} {
			if o.Health.Path == "" && d.has(at+".health."+field) {
				d.failAt(at+".health."+field, "has no effect without path")
			}
		}
		if o.Health.Timeout > o.Health.Interval {
			d.failAt(at+".health", "timeout (%s) must be at most interval (%s)", units.Duration(o.Health.Timeout), units.Duration(o.Health.Interval))
		}
	}
	if o := f.Defaults.Origin; o != "" && !d.broken["origins"] {
		f.validateOriginName(d, "defaults.origin", o)
	}
}

// validateBalance checks how the addresses of the origin at a path share requests.
func (o Origin) validateBalance(d *decoder, at string) {
	if len(o.URL) < 2 {
		for _, field := range []string{"balance", "weights", "slow_start", "ejection", "sticky"} {
			if d.inFile(at + "." + field) {
				d.failAt(at+"."+field, "has no effect without several addresses; give url a list, or remove it")
			}
		}
		return
	}
	if o.Weights != nil && len(o.Weights) != len(o.URL) {
		d.failAt(at+".weights", "has %d elements for %d addresses; give a weight for each address of url, in the same order", len(o.Weights), len(o.URL))
	}
	if o.Weights != nil && o.Balance == "first" {
		d.failAt(at+".weights", "has no effect with balance: first, which uses one address; remove it, or balance")
	}
	if o.Ejection.Time > o.Ejection.MaxTime {
		d.failAt(at+".ejection", "time (%s) must be at most max_time (%s)", units.Duration(o.Ejection.Time), units.Duration(o.Ejection.MaxTime))
	}
}

// validateTLS checks how the origin is connected to.
func (o Origin) validateTLS(d *decoder, at string) {
	secure := slices.ContainsFunc(o.URL, func(url string) bool { return strings.HasPrefix(url, "https:") })
	switch {
	case d.inFile(at) && !secure:
		d.failAt(at, "has no effect: no address of url begins with https://")
	case (o.TLS.Cert == "") != (o.TLS.Key == ""):
		d.failAt(at, "needs both cert and key, or none")
	}
}

// validateSticky checks the cookie of an origin. Two origins with the same one would assign a visitor anew at each request.
func (f *File) validateSticky(d *decoder, name string) {
	at, own := "origins."+name+".sticky", f.Origins[name].Sticky
	switch {
	case own.Cookie == "" && own.Secret.IsZero():
		return
	case own.Cookie == "":
		d.failAt(at, "needs a cookie; give its name, like cookie: isr-address")
		return
	case own.Secret.IsZero():
		d.failAt(at, "needs a secret, so that the cookie does not tell the address and all servers agree on it; write secret: {file: PATH}, and fill the file by: openssl rand -base64 32")
	case strings.HasSuffix(own.Cookie, "*") || strings.HasPrefix(own.Cookie, "!"):
		d.failAt(at+".cookie", "is the name of one cookie, without * and !")
	case own.Cookie == draft.Name:
		d.failAt(at+".cookie", "%s is the cookie of drafts; give another name", own.Cookie)
	}
	for _, other := range slices.Sorted(maps.Keys(f.Origins)) {
		if o := f.Origins[other]; other < name && o.Sticky.Cookie == own.Cookie {
			d.failAt(at+".cookie", "origins.%s has the same cookie; give each origin its own", other)
		}
	}
	for i, r := range f.Routes {
		if slices.ContainsFunc(r.Cookies, func(k Key) bool { return k.Name == own.Cookie }) {
			d.failSetting(fmt.Sprintf("routes[%d]", i), "cookies", "has %s, the cookie of origins.%s.sticky, which the cache does not see; remove it, or give one of them another name", own.Cookie, name)
		}
	}
	if !own.Secret.IsZero() && (d.files || own.Secret.File() == "") {
		if text, err := own.Secret.Read(); err == nil && len(text) < gateway.MinStickySecret {
			d.failAt(at+".secret", "has %d bytes; expected at least %d, as openssl rand -base64 32 writes them", len(text), gateway.MinStickySecret)
		}
	}
}

func (f *File) validateOriginName(d *decoder, path, name string) {
	if _, ok := f.Origins[name]; ok {
		return
	}
	var names []string
	for name := range f.Origins {
		names = append(names, name)
	}
	slices.Sort(names)
	d.failAt(path, "there is no origin %s in this file%s (origins: %s)", name, didYouMean(name, names), strings.Join(names, ", "))
}

// servesHost reports whether a host of a pattern is one of the hosts of the file.
func (f *File) servesHost(host string) bool {
	hosts := gateway.LoopbackHosts()
	if len(f.Hosts) > 0 {
		hosts, _ = gateway.ParseHosts(f.Hosts) // checked
	}
	return hosts.Serve(host)
}

func (f *File) validateRoutes(d *decoder) {
	var valid []int
	byMatch := make(map[string]int)
	for i := range f.Routes {
		r, at := &f.Routes[i], fmt.Sprintf("routes[%d]", i)
		if d.broken["routes"] || d.broken[at+".match"] {
			continue
		}
		if first, twice := byMatch[r.Match]; twice {
			d.failAt(at+".match", "routes[%d] (%s) has the same match; merge the routes, or make one of them more specific", first, f.where(d, first))
			continue
		}
		byMatch[r.Match] = i
		pattern, err := routing.Parse(r.Match)
		if err != nil {
			continue // reported as its value was decoded
		}
		valid = append(valid, i)
		f.validateHost(d, r, at)
		f.validateSettings(d, r, at, pattern.Names())
	}
	f.validateConflicts(d, valid)
}

// where names the line of a route.
func (f *File) where(d *decoder, i int) string {
	if d.inFile(fmt.Sprintf("routes[%d]", i)) {
		return fmt.Sprintf("%s:%d", d.name, d.placeAt(fmt.Sprintf("routes[%d].match", i)).line)
	}
	if f.Preset != "" {
		return fmt.Sprintf("preset %s, match: %s", f.Preset, f.Routes[i].Match)
	}
	return "built-in"
}

// validateConflicts reports patterns of which neither is more specific.
func (f *File) validateConflicts(d *decoder, valid []int) {
	for range maxErrors {
		patterns := make([]string, len(valid))
		for i, index := range valid {
			patterns[i] = f.Routes[index].Match
		}
		_, err := routing.New(patterns)
		var conflict *routing.ConflictError
		if !errors.As(err, &conflict) {
			return
		}
		first, second := valid[conflict.First], valid[conflict.Second]
		if !d.inFile(fmt.Sprintf("routes[%d]", second)) {
			first, second = second, first // of the preset
		}
		d.failAt(fmt.Sprintf("routes[%d].match", second), "conflicts with routes[%d] (%s), since neither is more specific; make one of them so. %s",
			first, f.where(d, first), strings.ReplaceAll(conflict.Problem, "\n", " "))
		valid = slices.DeleteFunc(valid, func(i int) bool { return i == second })
	}
}

// validateHost checks that the host of a pattern is served.
func (f *File) validateHost(d *decoder, r *Route, at string) {
	host := hostOf(r.Match)
	if host != "" && !d.isBroken("hosts") && !f.servesHost(host) {
		d.failAt(at+".match", "the host %s is not served; add it to hosts", host)
	}
}

// wildcard matches the wildcards of a tag.
var wildcard = regexp.MustCompile(`\{([^{}]*)\}`)

func (f *File) validateSettings(d *decoder, r *Route, at string, wildcards []string) {
	reported := len(d.errs.List)
	switch {
	case len(f.Origins) == 0, d.broken["origins"], d.isBroken(at+".origin", "defaults.origin"): // reported
	case r.Origin == "" && !d.inFile(at):
		d.failAt("origins", "there are %d origins; requests that no route matches need one: set defaults.origin, or add a route with match: /", len(f.Origins))
	case r.Origin == "":
		d.failAt(at+".origin", "missing, as there are %d origins; set it, or defaults.origin", len(f.Origins))
	case r.Origin != f.Defaults.Origin:
		f.validateOriginName(d, at+".origin", r.Origin)
	}
	for _, tag := range r.Tags {
		for _, m := range wildcard.FindAllStringSubmatch(tag, -1) {
			if !slices.Contains(wildcards, m[1]) {
				d.failSetting(at, "tags", "%q has the wildcard {%s}, which match (%s) does not have%s", tag, m[1], r.Match, didYouMean(m[1], wildcards))
			}
		}
	}
	for _, c := range r.Cookies {
		if len(c.Values) == 0 {
			d.failSetting(at, "cookies", "%s needs its classes of values, like {%s: [a, b]}: any other value of a cookie would make a page of its own", c.Name, c.Name)
		}
	}
	controls := !d.isBroken(at+".cache_control", "defaults.cache_control")
	if r.CDNCacheControl != "" && r.CacheControl == "" && controls {
		d.failSetting(at, "cdn_cache_control", "needs cache_control")
	}
	if r.SurrogateControl != "" && r.CacheControl == "" && controls {
		d.failSetting(at, "surrogate_control", "needs cache_control")
	}
	r.Protection.validate(func(name string) bool { return d.has(at + "." + name) }, func(name, problem string) { d.failSetting(at, name, "%s", problem) })
	if r.Cache == "off" {
		f.validateOff(d, at)
	}
	validateOverlaps(d, r, at)
	if len(d.errs.List) == reported {
		r.validateRules(d, at) // else it would report the same in other words
	}
}

// validateOff reports settings of a route that have no effect because it does not cache.
func (f *File) validateOff(d *decoder, at string) {
	for _, name := range []string{
		"revalidate", "opt_in", "stale", "stale_if_error", "keep_stale", "policy", "statuses", "request_directives", "unsafe_requests", "early_refresh", "jitter", "history", "negative.404", "negative.410", "negative.redirect",
		"store_negative", "own_request", "render_timeout", "wait", "max_body", "compression", "early_hints", "cache_control", "cdn_cache_control", "surrogate_control", "query", "headers", "vary", "max_variants", "cookies", "ignore_query", "ignore_cookies", "forward", "tags", "path_tags",
		"reject.smaller_than", "reject.without", "reject.with", "reject.status", "reject.truncated", "reject.content_type", "reject.lost_headers",
	} {
		if source, set := d.sources[at+"."+name]; set && source.Line > 0 && !source.Defaults {
			d.failAt(at+"."+name, "has no effect with cache: off")
		}
	}
}

// validateOverlaps reports names in two fields that exclude each other.
func validateOverlaps(d *decoder, r *Route, at string) {
	fold := strings.ToLower
	exact := func(s string) string { return s }
	var set []string
	for name := range r.SetHeaders {
		set = append(set, name)
	}
	for _, pair := range []struct {
		a, b         []string
		nameA, nameB string
		same         func(string) string
	}{
		{r.Forward, r.Headers.names(), "forward", "headers", fold},
		{r.IgnoreQuery, r.Query, "ignore_query", "query", exact},
		{r.IgnoreCookies, r.Cookies.names(), "ignore_cookies", "cookies", exact},
		{r.RemoveHeaders, set, "remove_headers", "set_headers", fold},
		{[]string{r.TenantHeader}, r.Headers.names(), "tenant_header", "headers", fold},
	} {
		for _, name := range pair.a {
			other := slices.IndexFunc(pair.b, func(b string) bool { return pair.same(b) == pair.same(name) })
			if other >= 0 {
				d.failSetting(at, pair.nameA, "%s is in %s too; remove it from one of them", name, pair.nameB)
			}
		}
	}
}

func (k Keys) names() []string {
	names := make([]string, len(k))
	for i, key := range k {
		names[i] = key.Name
	}
	return names
}
