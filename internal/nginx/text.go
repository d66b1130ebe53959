package nginx

import (
	"fmt"
	"strings"
	"time"

	"github.com/facetheory/isr/internal/canonical"
)

// text returns the configuration file.
func (t *translation) text(at string, today time.Time) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# isr between nginx and the site: nginx goes on to accept visitors, and isr caches. docs/nginx.md has the steps.")
	line("# isr config import wrote this file on %s, from %s.", today.Format(time.DateOnly), canonical.Shown(oneLine(at)))
	line("\nlisten:\n  - address: 127.0.0.1:8080\n    trusted_proxies: [loopback] # nginx, which forwards the host, the address and the scheme of visitors")
	if len(t.hosts) > 0 {
		line("hosts: %s", list(t.hosts))
	} else {
		line("# hosts: [example.com]")
	}
	if t.https {
		line("public_scheme: https # nginx has the certificates")
	}
	for _, s := range t.settings {
		line("%s", s.line())
	}
	line("\norigins:")
	for _, o := range t.origins {
		value := list(o.urls)
		if len(o.urls) == 1 {
			value = fmt.Sprintf("%q", o.urls[0])
		}
		line("  %s:\n    %s", o.name, setting{"url", value, o.comment}.line())
		if o.balance != nil {
			line("    %s", o.balance.line())
		}
	}
	line("\n# What no route matches, nginx does not pass to a site.\ndefaults:\n  cache: off")
	if len(t.origins) > 1 {
		line("  origin: %s", t.origins[0].name)
	}
	line("\nroutes:")
	for _, r := range t.routes {
		line("  # %s", comment(r.from))
		line("  - match: %q", r.host+r.match)
		if len(t.origins) > 1 {
			line("    origin: %s", r.origin.name)
		}
		if r.cached() {
			line("    cache: on")
		}
		for _, s := range r.settings {
			line("    %s", s.line())
		}
	}
	return b.String()
}

func (s setting) line() string {
	if s.comment == "" {
		return s.name + ": " + s.value
	}
	return s.name + ": " + s.value + " # " + s.comment
}

// list returns texts as a list of isr.yaml, in quotes.
func list(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = fmt.Sprintf("%q", text)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// oneLine returns a text without line breaks: quoted arguments may have some.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
