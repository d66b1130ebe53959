package assess

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/units"
)

// A setting is one change of a configuration.
type setting struct {
	name  string // as isr.yaml has it; empty for the configuration itself
	apply func(*isr.Route)
}

// windows returns the freshness windows that are compared.
func windows() []time.Duration {
	return []time.Duration{10 * time.Second, time.Minute, 10 * time.Minute, time.Hour}
}

// settings returns the configuration itself, and with Compare the changes of it that make a difference.
func settings(opts Options, p *parameters) []setting {
	all := []setting{{"", func(*isr.Route) {}}}
	if !opts.Compare {
		return all
	}
	for _, window := range windows() {
		all = append(all, setting{"revalidate: " + units.Duration(window), func(r *isr.Route) {
			if r.Auto == (isr.AutoWindow{}) {
				r.Revalidate = window
			}
		}})
	}
	if names := p.frequent(); len(names) > 0 {
		all = append(all,
			setting{"query: [" + strings.Join(quotedNames(names), ", ") + "]", func(r *isr.Route) {
				for _, name := range names {
					if !slices.Contains(r.Query, name) {
						r.Query = append(slices.Clip(r.Query), name)
					}
				}
			}},
			setting{`ignore_query: ["*"]`, func(r *isr.Route) { r.IgnoreQuery = append(slices.Clip(r.IgnoreQuery), "*") }})
	}
	return append(all,
		setting{"stale: 1d", func(r *isr.Route) { r.Stale = 24 * time.Hour }},
		setting{"stale: 0s", func(r *isr.Route) { r.Stale = -1 }})
}

// quotedNames returns names as YAML has them, in quotes unless they are plain words.
func quotedNames(names []string) (quoted []string) {
	for _, name := range names {
		if strings.ContainsFunc(name, func(c rune) bool {
			return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_'
		}) || name == "" {
			name = fmt.Sprintf("%q", name)
		}
		quoted = append(quoted, name)
	}
	return quoted
}

// with returns the routes of a site with a setting, whose origins are a handler. same reports whether all routes
// that are cached are as before.
func (s setting) with(site gateway.SiteConfig, origin gateway.Origin) (changed gateway.SiteConfig, same bool) {
	changed, same = site, true
	changed.Origins = make(map[string]gateway.Origin, len(site.Origins))
	for name := range site.Origins {
		changed.Origins[name] = origin
	}
	changed.Routes = slices.Clone(site.Routes)
	for i := range changed.Routes {
		r := &changed.Routes[i].Route
		before := *r
		if !r.Off {
			s.apply(r)
		}
		same = same && before.Revalidate == r.Revalidate && before.Stale == r.Stale &&
			slices.Equal(before.Query, r.Query) && slices.Equal(before.IgnoreQuery, r.IgnoreQuery)
	}
	return changed, same
}
