package config

import (
	"fmt"
	"os"

	"github.com/facetheory/isr/gateway"
)

// Protection says which requests are accepted: of the site, or of a route.
type Protection struct {
	Allow     []string `yaml:"allow" other:"allowlist,whitelist,ip_allow" max:"1000" format:"network" help:"Networks whose clients are accepted; all others get 403: a CIDR, an address, loopback or private. At the top level for all requests, and in a route for its own, in addition. The client is the one that trusted_proxies name (docs/protection.md)." unset:"all clients are accepted" example:"[10.0.0.0/8]"`
	AllowFile string   `yaml:"allow_file" format:"path" help:"File with further networks for allow, one a line, at most 100000; a reload reads it again." unset:"none" example:"/etc/isr/customers.txt"`
	Deny      []string `yaml:"deny" other:"denylist,blacklist,block,ip_deny" max:"1000" format:"network" help:"Networks whose clients get 403, also if allow has them." unset:"none" example:"[203.0.113.0/24, \"2001:db8::/32\"]"`
	DenyFile  string   `yaml:"deny_file" format:"path" help:"File with further networks for deny, one a line, at most 100000; a reload reads it again." unset:"none" example:"/etc/isr/blocked.txt"`

	RateLimits []string `yaml:"rate_limits" other:"rate_limit,ratelimit,limits,limit_req,throttle" max:"16" format:"rateLimit" help:"How many requests are accepted; others get 429: a rate (10/s, 100/m, 1000/h), and if needed burst N (the number of the rate), by client (an IPv4 address or an IPv6 /64), by header NAME or by route, and count all or count origin (requests that reach the origin). On each node (docs/protection.md)." unset:"no limit" example:"[20/s burst 100, 600/h by header X-Api-Key]"`
}

// Rules returns the protection as the gateway takes it. It reads the files.
func (p Protection) Rules() (rules gateway.Protection, err error) {
	if len(p.Allow) > 0 || p.AllowFile != "" {
		allow, err := networksOf(p.Allow, p.AllowFile)
		if err != nil {
			return rules, err
		}
		rules.Allow = &allow
	}
	for _, text := range p.RateLimits {
		limit, err := gateway.ParseRateLimit(text)
		if err != nil {
			return rules, err
		}
		rules.Limits = append(rules.Limits, limit)
	}
	rules.Deny, err = networksOf(p.Deny, p.DenyFile)
	return rules, err
}

// networksOf returns the networks of a list and of a file, if there is one.
func networksOf(texts []string, path string) (gateway.Networks, error) {
	listed, err := gateway.ParseNetworks(texts)
	if err != nil || path == "" {
		return listed, err
	}
	file, err := os.Open(path)
	if err != nil {
		return listed, err
	}
	defer func() { _ = file.Close() }()
	read, err := gateway.ReadNetworks(file)
	if err != nil {
		return listed, fmt.Errorf("%s: %w", path, err)
	}
	return listed.And(read), nil
}

func (f *File) validateProtection(d *decoder) {
	f.Protection.validate(d.has, func(name, problem string) { d.failAt(name, "%s", problem) })
}

// validate reports, by fail, which field has no effect, or one that nobody means. has reports whether a field is set.
func (p Protection) validate(has func(name string) bool, fail func(name, problem string)) {
	if has("allow") && len(p.Allow) == 0 && p.AllowFile == "" {
		fail("allow", "is empty, so that every client would get 403; name networks, like [10.0.0.0/8], or remove it")
	}
}

// checkFiles reports files of networks that cannot be read, unless they were checked before.
func (p Protection) checkFiles(checked map[string]bool, fail func(name string, err error)) {
	for name, path := range map[string]string{"allow_file": p.AllowFile, "deny_file": p.DenyFile} {
		if path == "" || checked[path] {
			continue
		}
		checked[path] = true
		if _, err := networksOf(nil, path); err != nil {
			fail(name, fmt.Errorf("%w%s", err, relativeTo(path)))
		}
	}
}
