package server

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/internal/config"
	"github.com/facetheory/isr/internal/routing"
	"github.com/facetheory/isr/store"
)

// RequestOf returns what is explained. Credentials are not part of it.
func RequestOf(url, method string, headers []string) admin.Explain {
	lines := make([]string, 0, len(headers))
	for _, line := range headers {
		if name, _, found := strings.Cut(line, ":"); found && (strings.EqualFold(name, "Authorization") || strings.EqualFold(name, "Proxy-Authorization")) {
			line = name + ": redacted"
		}
		lines = append(lines, strings.NewReplacer("\r", " ", "\n", " ").Replace(line))
	}
	return admin.Explain{URL: url, Method: method, Headers: strings.Join(lines, "\n")}
}

// prepare does to a request what its listener does by a configuration.
func prepare(f *config.File, r *http.Request) (gateway.Prepared, error) {
	trust, err := trustOf(f.Listen[receiver(f, r)])
	if err != nil {
		return gateway.Prepared{}, err
	}
	secrets, err := draftSecrets(f)
	if err != nil {
		return gateway.Prepared{}, err
	}
	p, err := gateway.Prepare(r, trust, secrets)
	if err != nil {
		return gateway.Prepared{}, &refusedRequest{http.StatusBadRequest, fmt.Errorf("the request is refused: %w", err)}
	}
	if f.BothSchemes() {
		p.KeyScheme(schemeOf(f, r), f.PublicScheme)
	}
	return p, nil
}

// schemeOf returns the scheme of a request to be explained, as its listener knows it.
func schemeOf(f *config.File, r *http.Request) string { return f.SchemeOf(f.Listen[receiver(f, r)]) }

// explain explains by the present configuration of a server.
func (r *reloader) explain(req *http.Request, fetch bool) (admin.Explained, store.Key, error) {
	r.mu.Lock()
	file := r.current
	r.mu.Unlock()
	e, k, err := ExplainRequest(file, r.site, req, fetch)
	e.Running = true
	return e, k, err
}

// ExplainRequest explains what a site with the configuration of a file would do with a request.
// The key is of the page that it would get; zero if there is none.
func ExplainRequest(f *config.File, site *gateway.Site, r *http.Request, fetch bool) (e admin.Explained, k store.Key, err error) {
	shown := *r.URL
	if shown.User = nil; shown.RawQuery != "" {
		shown.RawQuery = "…" // parameters that are in no key may be secret
	}
	e = admin.Explained{URL: shown.String(), Method: r.Method, Reasons: []admin.Reason{}, Parts: []admin.RequestPart{}}
	p, err := prepare(f, r)
	if err != nil {
		return e, store.Key{}, err
	}
	places, err := explain(f, p.Request)
	var refused *refusedRequest
	switch {
	case errors.As(err, &refused):
		e.Verdict, e.Status = string(isr.VerdictRefused), refused.status
		e.Reasons = append(e.Reasons, admin.Reason{Text: refused.Error()})
		return e, store.Key{}, nil
	case err != nil:
		return e, store.Key{}, err
	}
	host, route, origin := places.place(places.host, "hosts"), places.route(), places.origin()
	e.Listener, e.Host, e.Route, e.Origin, e.Tags = &places.listener, &host, &route, &origin, places.tags
	p.Request.Host = places.host
	if to := f.RedirectTo(receiver(f, r)); to >= 0 && p.RedirectsToHTTPS() {
		e.Verdict, e.Status = string(isr.VerdictBypass), http.StatusMovedPermanently
		text := "the listener has no TLS and another one has: the visitor is redirected to https"
		if f.Listen[to].ACME {
			text += ", once there is a certificate for the host"
		}
		e.Reasons = append(e.Reasons, admin.Reason{Text: text, Advice: "explain the URL with https; redirect_https: false of the listener turns the redirect off"})
		return e, store.Key{}, nil
	}
	d, err := site.Explain(p, fetch)
	if errors.Is(err, routing.ErrNone) {
		return e, store.Key{}, fmt.Errorf("the configuration is being replaced; try again: %w", err)
	}
	if err != nil {
		return e, store.Key{}, err
	}
	e.Add(d)
	return e, cmp.Or(d.Variant, d.Key), nil
}
