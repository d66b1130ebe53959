package leak

import (
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"strings"

	"github.com/facetheory/isr/internal/canonical"
)

// maxHosts bounds the other hosts of the site that are tried in forwarding fields.
const maxHosts = 3

// checkForwardedHost finds out whether a visitor chooses the host of a page by X-Forwarded-Host, or
// by host= of Forwarded: a cache in front then stores the page of one host under another one. It
// sends an invented host, and the other hosts of the site. Each request has a URL of its own, so
// that no visitor gets the response.
func (s *subject) checkForwardedHost(ctx context.Context) error {
	hosts := append([]string{"isrdoctor" + strings.ToLower(rand.Text()) + ".invalid"}, s.e.otherHosts()...)
	for _, field := range []struct{ name, prefix string }{{"X-Forwarded-Host", ""}, {"Forwarded", "for=192.0.2.1;host="}} {
		for _, host := range hosts {
			obeyed, err := s.obeys(ctx, http.Header{field.name: {field.prefix + host}}, host)
			if err != nil {
				return err
			}
			if obeyed {
				s.e.find(Leak, "forwarded-host", s.u, field.name,
					"a visitor chooses the host of a page by the request header "+field.name+": a cache in front stores the page of one host under another",
					"remove trust_forwarded_host (--trust-forwarded-host), or let each proxy in front set or remove "+field.name+" ("+field.name+" of visitors arrives at isr); then purge the caches in front")
				break
			}
		}
	}
	return nil
}

// obeys reports whether a request gets another response with a header that names a host than
// without the header: the host is refused, is mentioned, or has another page. It is tried twice.
func (s *subject) obeys(ctx context.Context, h http.Header, host string) (bool, error) {
	for range 2 {
		var got [3]*answer // without, with, without
		for i, header := range []http.Header{nil, h, nil} {
			var err error
			if got[i], err = s.e.client.get(ctx, withParameter(s.u), "", header); err != nil {
				return false, err
			}
		}
		before, with, after := got[0], got[1], got[2]
		rough := before.content(false) != after.content(false)
		switch {
		case with.status == http.StatusMisdirectedRequest && before.status != with.status, with.mentions(host) && !before.mentions(host):
		case before.content(rough) == after.content(rough) && before.content(rough) != with.content(rough):
		default:
			return false, nil
		}
	}
	return true, nil
}

// otherHosts are hosts that isr serves beside the one of the URL; a pattern gives one of its names.
func (e *examination) otherHosts() (hosts []string) {
	own, _ := canonical.Host(e.URL.Host)
	for _, pattern := range e.Hosts {
		name := strings.Replace(pattern, "*", "isr-doctor", 1)
		host, ok := canonical.Host(name)
		if pattern != "*" && ok && host != own && !slices.Contains(hosts, host) && len(hosts) < maxHosts {
			hosts = append(hosts, host)
		}
	}
	return hosts
}
