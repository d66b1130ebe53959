package server

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/internal/config"
)

// process describes this server to isr doctor.
func (r *reloader) process() admin.Process {
	c, f := r.present(), r.file()
	p := ProcessOf(f, int64(c.Memory))
	p.Table, p.Bucket, p.Region, p.DynamoDB, p.S3 = c.Table, c.Bucket, c.Region, c.DynamodbEndpoint, c.S3Endpoint
	for i := range p.Origins {
		p.Origins[i].MaxHeader = int64(c.MaxHeader)
	}
	p.Name, p.Config = nodeName(), r.digest.get()
	l := ReadSystemLimits()
	p.Files, p.OpenFiles, p.Limit = l.Files, l.OpenFiles, l.Memory
	sample := r.public.peers.Sample()
	p.Requests = sample.Requests
	scheme := r.site.SchemeProblem()
	p.Scheme, p.SchemeAdvice = scheme.What, scheme.Do
	for _, peer := range sample.Peers {
		p.Peers = append(p.Peers, admin.ProcessPeer{
			Address: peer.Address.String(), Trusted: peer.Trusted, Requests: peer.Requests, Forwarding: peer.Forwarding, Fields: append([]string{}, peer.Fields...),
		})
	}
	if o := sample.Others; o.Requests > 0 {
		p.Peers = append(p.Peers, admin.ProcessPeer{Requests: o.Requests, Forwarding: o.Forwarding, Fields: append([]string{}, o.Fields...)})
	}
	return p
}

// ProcessOf describes a server that has not started, by its file.
func ProcessOf(f *config.File, memory int64) admin.Process {
	p := admin.Process{File: f.Name(), Hosts: f.Hosts, Memory: memory, Peers: []admin.ProcessPeer{}, Origins: []admin.ProcessOrigin{}}
	for _, name := range slices.Sorted(maps.Keys(f.Origins)) {
		p.Origins = append(p.Origins, processOrigin(f, name))
	}
	for i := range p.Origins {
		p.Origins[i].MaxHeader = int64(f.MaxHeader) // zero if flags configure the server
	}
	for _, l := range f.Listen {
		p.Listeners = append(p.Listeners, admin.ProcessListener{Address: l.Address, Trusted: append([]string{}, l.TrustedProxies...), Host: l.ForwardedHost, Protocol: l.ProxyProtocol})
	}
	return p
}

// processOrigin describes an origin by the route with the shortest path that leads to it.
func processOrigin(f *config.File, name string) admin.ProcessOrigin {
	o := f.Origins[name]
	p := admin.ProcessOrigin{Name: name, URLs: []string{}, Health: o.Health.Path, Host: hostOfSite(f.Hosts), Path: "/", Scheme: f.PublicScheme, Connections: int64(o.MaxConnections) + int64(o.MaxRenders)}
	for _, text := range o.URL {
		if u, err := gateway.ParseOrigin(text); err == nil {
			p.URLs = append(p.URLs, u.String())
		}
	}
	settings, path := f.Defaults, ""
	for _, r := range f.Routes {
		host, at, ok := pageOf(r.Match)
		if r.Origin != name || !ok || path != "" && len(at) >= len(path) {
			continue
		}
		settings, path, p.Host = r.Settings, at, cmp.Or(host, p.Host)
	}
	p.Path = cmp.Or(path, "/")
	p.Revalidate, p.Strict, p.Off, p.Vary = settings.Revalidate.Min.Seconds(), settings.OptIn == "strict", settings.Cache == "off", settings.Vary == "auto"
	for _, key := range settings.Headers {
		p.Headers = append(p.Headers, key.Name)
	}
	return p
}

// hostOfSite returns a host that visitors use; empty if hosts has none without a wildcard.
func hostOfSite(hosts []string) string {
	for _, h := range hosts {
		if !strings.Contains(h, "*") {
			return h
		}
	}
	return ""
}

// pageOf returns a host, which may be empty, and a path that a pattern without wildcards
// matches.
func pageOf(match string) (host, path string, ok bool) {
	method, rest, found := strings.Cut(match, " ")
	switch {
	case !found:
		rest = match
	case method != "GET" && method != "HEAD":
		return "", "", false
	}
	rest = strings.TrimSuffix(strings.TrimSpace(rest), "{$}")
	at := strings.IndexByte(rest, '/')
	if at < 0 || strings.ContainsAny(rest, "{*") {
		return "", "", false
	}
	return rest[:at], rest[at:], true
}

// origins returns the state of the origins.
func (r *reloader) origins() []admin.Origin {
	var all []admin.Origin
	for _, o := range r.site.Origins() {
		one := admin.Origin{Name: o.Name, Addresses: []admin.OriginAddress{}, Breaker: "closed", Rendering: o.Rendering, Waiting: o.Waiting}
		if o.Open {
			one.Breaker = "open"
		}
		for _, a := range o.Addresses {
			one.Addresses = append(one.Addresses, admin.OriginAddress{URL: a.URL, Healthy: a.Up})
		}
		all = append(all, one)
	}
	return all
}

// demo reports whether the demonstration site is served.
func (r *reloader) demo() bool {
	for _, o := range r.file().Origins {
		if o.Demo {
			return true
		}
	}
	return false
}
