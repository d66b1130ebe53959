package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/facetheory/isr/internal/routing"
)

func (f *File) validateRoutes(d *decoder) {
	var valid []int
	byMatch := make(map[string]int)
	for i := range f.Routes {
		r, at := &f.Routes[i], fmt.Sprintf("routes[%d]", i)
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
	if host != "" && !f.servesHost(host) {
		d.failAt(at+".match", "the host %s is not served; add it to hosts", host)
	}
}

// wildcard matches the wildcards of a tag.
var wildcard = regexp.MustCompile(`\{([^{}]*)\}`)

func (f *File) validateSettings(d *decoder, r *Route, at string, wildcards []string) {
	reported := len(d.errs.List)
	switch {
	case len(f.Origins) == 0: // reported
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
	if r.CDNCacheControl != "" && r.CacheControl == "" {
		d.failSetting(at, "cdn_cache_control", "needs cache_control")
	}
	if r.SurrogateControl != "" && r.CacheControl == "" {
		d.failSetting(at, "surrogate_control", "needs cache_control")
	}
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
		"revalidate", "opt_in", "stale", "stale_if_error", "policy", "statuses", "request_directives", "unsafe_requests", "early_refresh", "jitter", "history", "negative.404", "negative.410", "negative.redirect",
		"store_negative", "own_request", "render_timeout", "wait", "max_body", "compression", "early_hints", "cache_control", "cdn_cache_control", "surrogate_control", "query", "headers", "vary", "max_variants", "cookies", "ignore_query", "ignore_cookies", "forward", "tags", "path_tags",
		"reject.smaller_than", "reject.without", "reject.with", "reject.status", "reject.content_type", "reject.lost_headers",
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
