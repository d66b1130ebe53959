package admin

import (
	"errors"
	"fmt"
	"strings"

	"github.com/facetheory/isr/internal/purgetarget"
	"github.com/facetheory/isr/store"
)

// A PurgeTarget selects pages to purge. Exactly one of its fields is set.
type PurgeTarget = purgetarget.PurgeTarget

// completePrefixes adds the host to prefixes that are only paths, if the site has one host.
func (a *API) completePrefixes(targets *[]PurgeTarget) error {
	if a.cfg.Hosts == nil {
		return nil
	}
	hosts := a.cfg.Hosts()
	var complete []PurgeTarget
	for _, t := range *targets {
		only := hosts.Only()
		switch {
		case !strings.HasPrefix(t.Prefix, "/"):
			complete = append(complete, t)
		case len(only) == 0:
			return invalid("the prefix %.100q has no host, and this server serves more than one (%.200s); give the prefix with each host, like example.com%.100s", t.Prefix, hosts, t.Prefix)
		default:
			path := t.Prefix
			for _, host := range only {
				t.Prefix = host + path
				complete = append(complete, t)
			}
		}
	}
	*targets = complete
	return nil
}

// parseTargets parses the targets of one purge, without duplicates.
func parseTargets(targets []PurgeTarget, tenant string) ([]store.PurgeTarget, error) {
	if len(targets) == 0 {
		return nil, invalid("targets is empty; expected 1 to %d targets, such as {\"tag\": \"product-7\"}", store.MaxPurgeTargets)
	}
	if len(targets) > store.MaxPurgeTargets {
		return nil, errTooManyTargets(len(targets))
	}
	parsed := make([]store.PurgeTarget, 0, len(targets))
	seen := make(map[store.PurgeTarget]bool, len(targets))
	for i, t := range targets {
		p, err := t.Parse(tenant)
		if err != nil && len(targets) > 1 {
			err = fmt.Errorf("target %d: %w", i+1, err)
		}
		if err != nil {
			return nil, err
		}
		if !seen[p] {
			seen[p] = true
			parsed = append(parsed, p)
		}
	}
	return parsed, nil
}

// maxWarnings bounds the warnings of a purge.
const maxWarnings = 10

// unreachable describes those targets that are URLs which no page can have, because this
// server does not serve the host, or no route makes that key of a request.
func (a *API) unreachable(targets []store.PurgeTarget) (warnings []string) {
	for _, t := range targets {
		if t.Kind != store.PurgeKey || a.cfg.Cache == nil {
			continue // what other servers serve is not known
		}
		warning := a.unreachablePage(store.Key{Tenant: t.Tenant, Text: t.Value})
		if warning == "" {
			continue
		}
		if len(warnings) == maxWarnings {
			return append(warnings, "and others")
		}
		warnings = append(warnings, warning)
	}
	return warnings
}

func (a *API) unreachablePage(k store.Key) string {
	var refused *Error
	if errors.As(a.served(k), &refused) {
		return shortened(refused.Message)
	}
	instead, err := a.cache.Reachable(k)
	if err == nil {
		return ""
	}
	text := fmt.Sprintf("%.200s: %v", k, err)
	if instead != (store.Key{}) {
		text += fmt.Sprintf("; to purge the page that visitors get give %.200s", instead)
	}
	return shortened(text)
}

// shortened bounds a warning, which may name a long key several times.
func shortened(text string) string { return fmt.Sprintf("%.1000s", text) }

func errTooManyTargets(n int) *Error {
	return &Error{
		Status: 400, Code: "too_many_targets",
		Message: fmt.Sprintf("%d targets are more than one purge can have, which is %d", n, store.MaxPurgeTargets),
		Hint:    "split them into several requests, or purge a tag or a prefix that covers them",
	}
}
