package server

import (
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/examples/demosite/site"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/config"
)

// SiteConfig returns the routes and origins of a file.
func SiteConfig(f *config.File, log *slog.Logger) (gateway.SiteConfig, error) {
	cfg := gateway.SiteConfig{Origins: make(map[string]gateway.Origin), PublicScheme: f.PublicScheme, CountryHeader: f.CountryHeader, Logger: log}
	var err error
	if cfg.Maintenance, err = maintenanceOf(f.Maintenance); err != nil {
		return cfg, err
	}
	if cfg.Redirects, err = f.RedirectTable(); err != nil {
		return cfg, err
	}
	for name, o := range f.Origins {
		origin, err := originOf(o)
		if err != nil {
			return cfg, fmt.Errorf("origin %s: %w", name, err)
		}
		cfg.Origins[name] = origin
	}
	protections := make(protections)
	for _, r := range f.Routes {
		rt, err := routeOf(r, f.Origins[r.Origin].Demo)
		if err != nil {
			return cfg, fmt.Errorf("route %s: %w", r.Match, err)
		}
		if f.BothSchemes() && !keyHas(rt, schemeHeader) {
			rt.Vary = append(slices.Clone(rt.Vary), schemeHeader)
		}
		protection, err := protections.of(r.Protection)
		if err != nil {
			return cfg, fmt.Errorf("route %s: %w", r.Match, err)
		}
		cfg.Routes = append(cfg.Routes, gateway.SiteRoute{Pattern: r.Match, Route: rt, Origin: r.Origin, Protection: protection, Device: len(r.Device) > 0, Country: len(r.Country) > 0})
	}
	cfg.Protection, err = protections.of(f.Protection)
	return cfg, err
}

// protections are the protections that were made, by their fields: many routes may have the one of defaults, with its files.
type protections map[string]gateway.Protection

func (p protections) of(fields config.Protection) (gateway.Protection, error) {
	key := fmt.Sprintf("%q", fields)
	if made, ok := p[key]; ok {
		return made, nil
	}
	made, err := fields.Rules()
	p[key] = made
	return made, err
}

// schemeHeader states the scheme of a request, see [gateway.EdgeConfig.KeyScheme].
const schemeHeader = "X-Forwarded-Proto"

// keyHas reports whether the keys of a route have a request header.
func keyHas(rt isr.Route, header string) bool {
	return slices.ContainsFunc(rt.Vary, func(name string) bool { return strings.EqualFold(name, header) }) ||
		slices.ContainsFunc(rt.KeyClasses, func(c isr.KeyClass) bool { return strings.EqualFold(c.Header, header) })
}

func originOf(o config.Origin) (gateway.Origin, error) {
	origin := gateway.Origin{
		Renders: unlimited(o.MaxRenders), Failures: unlimited(o.BreakerFailures), MaxConnections: o.MaxConnections,
		ConnectTimeout: o.ConnectTimeout, ResponseTimeout: o.ResponseTimeout,
		Balance: gateway.Balance(o.Balance), Weights: o.Weights, SlowStart: o.SlowStart,
		Ejection: gateway.Ejection{Failures: unlimited(o.Ejection.Failures), Time: o.Ejection.Time, MaxTime: o.Ejection.MaxTime},
		Health:   gateway.HealthCheck{Path: o.Health.Path, Interval: o.Health.Interval, Timeout: o.Health.Timeout, Failures: o.Health.Failures},
	}
	var err error
	if origin.TLS, err = o.TLS.Read(); err != nil {
		return origin, fmt.Errorf("tls: %w", err)
	}
	origin.Host = o.Host
	if o.Sticky.Cookie != "" {
		secret, err := o.Sticky.Secret.Read()
		if err != nil {
			return origin, err
		}
		origin.Sticky = gateway.Sticky{Cookie: o.Sticky.Cookie, Secret: secret}
	}
	if o.Demo {
		origin.Handler = site.Handler(site.Config{})
	}
	for _, text := range o.URL {
		u, err := gateway.ParseOrigin(text)
		if err != nil {
			return origin, err
		}
		origin.URLs = append(origin.URLs, u)
	}
	return origin, nil
}

// unlimited returns what the library takes for a number of which 0 means no limit.
func unlimited(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// routeOf returns a route as the library has it.
func routeOf(r config.Route, demo bool) (isr.Route, error) {
	rt, err := r.Rules()
	if demo {
		rt.Query = append(slices.Clone(rt.Query), site.QueryParameters()...)
		if rt.Stale == 0 {
			rt.Stale = 24 * time.Hour // its pages show how stale ones are served
		}
	}
	return rt, err
}

// addresses returns the addresses of all origins, which are connected to at start.
func addresses(f *config.File) (all []*url.URL) {
	for _, o := range f.Origins {
		for _, text := range o.URL {
			if u, err := gateway.ParseOrigin(text); err == nil {
				all = append(all, u)
			}
		}
	}
	return all
}
