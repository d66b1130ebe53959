package survey

import "testing"

// The longest rule decides, of the groups for all crawlers (RFC 9309, section 2.2).
func TestRobots(t *testing.T) {
	rules := parseRobots(`
User-agent: a
Disallow: /
# A group for two.
User-agent: b
User-agent: *
Disallow: /x/ # and below
Allow: /x/y
Disallow: /*.pdf$
Disallow: /a*b*c
Sitemap: /sitemap.xml

user-agent: *
disallow: /z
allow: /z
Disallow:
User-agent: c
Disallow: /only-c
`)
	for path, want := range map[string]bool{
		"/": true, "/x": true, "/x/": false, "/x/a": false, "/x/y/a": true, "/a.pdf": false, "/a.pdf?x": true, "/a-b-c": false, "/a-b": true, "/acb": true,
		"/z": true, "/only-c": true, "": true,
	} {
		if got := rules.allows(path); got != want {
			t.Errorf("%q is %v, want %v", path, got, want)
		}
	}
	if !parseRobots("").allows("/") || parseRobots("User-agent: *\nDisallow: *").allows("/") {
		t.Error("no rules, or one for all")
	}
}
