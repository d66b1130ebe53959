package gateway_test

import (
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/conformance"
	"github.com/facetheory/isr/internal/testbed"
)

const (
	authorized = "a request with credentials never uses the cache"
	undeclared = "a response that varies on an undeclared header is not stored"
	ignored    = "by default visitors cannot make the origin work"
	unnamed    = "other statuses are stored where the route names them"
)

// exceptions are the cases that do not pass, or do not apply, with their reasons.
func exceptions(fitting bool) map[string]string {
	known := make(map[string]string)
	add := func(reason, group string, names ...string) {
		for _, name := range names {
			known[group+"/"+name] = reason
		}
	}
	add(authorized, "authorization", "public", "s-maxage", "must-revalidate")
	add("such responses pass through: the origin is asked in either case", "response", "no-cache is validated")
	add("the grammar of the header is not known", "vary", "space in the list")
	if fitting {
		return known
	}
	add(undeclared, "vary", "the same", "none in both", "the name in another case", "another header differs", "two headers", "returns to the first variant")
	add(ignored, "request", "no-cache", "max-age=0", "max-age=1", "min-fresh=7200", "Pragma: no-cache", "max-stale", "no-store")
	for _, status := range []string{"299", "400", "405", "414", "499", "500", "501", "502", "503", "504", "599"} {
		add(unnamed, "status", status+" with max-age")
	}
	return known
}

// TestConformance runs the cases of RFC 9110, 9111, 9213 and 5861 against the gateway: all pass,
// except those that are listed, with the defaults and with a route that fits the suite.
func TestConformance(t *testing.T) {
	for name, c := range map[string]struct {
		route   isr.Route
		fitting bool
	}{
		"default": {},
		"fitting": {isr.Route{
			Vary: []string{"Foo", "Bar"}, Query: []string{"a"}, ObeyRequests: true,
			Statuses: []int{299, 400, 405, 414, 499, 500, 501, 502, 503, 504, 599},
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hosts, err := gateway.ParseHosts([]string{"*"})
			if err != nil {
				t.Fatal(err)
			}
			suite := conformance.New("run")
			origin := httptest.NewServer(suite)
			t.Cleanup(origin.Close)
			site := newSite(t, testbed.Cache(t, testbed.Table(t), isr.Config{}), gateway.SiteConfig{
				Origins: map[string]gateway.Origin{"site": {URLs: []*url.URL{parse(t, origin.URL)}}},
				Routes:  []gateway.SiteRoute{{Pattern: "/", Origin: "site", Route: c.route}},
			})
			edge := httptest.NewServer(gateway.Edge(gateway.EdgeConfig{Hosts: hosts}, site))
			t.Cleanup(edge.Close)
			known := exceptions(c.fitting)
			for _, r := range suite.Run(t.Context(), edge.URL, conformance.Cases()) {
				reason, excepted := known[r.Case.Name]
				switch {
				case excepted && r.Outcome == conformance.Passed:
					t.Errorf("%s passes; remove it from the exceptions (%s)", r.Case.Name, reason)
				case !excepted && r.Outcome != conformance.Passed:
					t.Errorf("%s, RFC %s: %s: %s", r.Case.Name, r.Case.Section, r.Outcome, r.Reason)
				}
			}
		})
	}
}
