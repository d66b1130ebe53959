// Package purgetarget parses the targets of purges as people and services write them: the
// JSON of POST /-/purge, the templates of webhooks, the lines of isr purge.
package purgetarget

import (
	"fmt"
	"strings"

	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/store"
)

// Kinds are the kinds of targets, which are the names of the fields of a [PurgeTarget].
func Kinds() []string { return []string{"url", "tag", "prefix", "host", "tenant", "all"} }

// A PurgeTarget selects pages to purge. Exactly one of its fields is set.
type PurgeTarget struct {
	URL    string `json:"url,omitempty" doc:"URL of a page, or its key: the page and its variants."`
	Tag    string `json:"tag,omitempty" doc:"The pages with this tag."`
	Prefix string `json:"prefix,omitempty" doc:"The pages whose URL begins with this text, such as example.com/blog/. A path such as /blog/, if the server serves one host."`
	Host   string `json:"host,omitempty" doc:"All pages of a host, such as example.com."`
	Tenant string `json:"tenant,omitempty" doc:"All pages of a tenant."`
	All    bool   `json:"all,omitempty" doc:"All pages, of all tenants."`
}

// Validate returns an error as [PurgeTarget.Parse] does.
func (t PurgeTarget) Validate(tenant string) error {
	_, err := t.Parse(tenant)
	return err
}

// Parse returns the target in the form of the store. URLs, tags, prefixes and hosts are
// the targets of a tenant, which may be empty. Errors wrap [store.ErrInvalidInput] or
// [store.ErrInvalidKey].
func (t PurgeTarget) Parse(tenant string) (store.PurgeTarget, error) {
	kind, value, found := "", "", 0
	for i, v := range []string{t.URL, t.Tag, t.Prefix, t.Host, t.Tenant} {
		if v != "" {
			kind, value = Kinds()[i], v
			found++
		}
	}
	if t.All {
		kind = "all"
		found++
	}
	if found != 1 {
		return store.PurgeTarget{}, fmt.Errorf("%w: expected exactly one of url, tag, prefix, host, tenant and all (found %d)", store.ErrInvalidInput, found)
	}
	return Parse(kind, tenant, value)
}

// Parse returns the target of a kind, one of [Kinds], with a value, which is empty for
// "all". [PurgeTarget.Parse] lists the errors.
func Parse(kind, tenant, value string) (store.PurgeTarget, error) {
	parsed := store.PurgeTarget{Tenant: tenant}
	var err error
	switch kind {
	case "url":
		parsed.Kind = store.PurgeKey
		parsed.Value, err = pageText(value)
	case "tag":
		parsed.Kind, parsed.Value = store.PurgeTag, value
	case "prefix":
		parsed.Kind = store.PurgePrefix
		parsed.Value, err = prefixText(value)
	case "host":
		parsed.Kind = store.PurgePrefix
		parsed.Value, err = hostText(value)
	case "tenant":
		if tenant != "" && tenant != value {
			return parsed, fmt.Errorf("%w: the target is the tenant %.70s, and the purge is of the tenant %.70s", store.ErrInvalidInput, value, tenant)
		}
		parsed.Kind, parsed.Tenant = store.PurgeTenant, value
	case "all":
		if tenant != "" {
			return parsed, fmt.Errorf("%w: all is all tenants; for one tenant give the target {\"tenant\": %.70q}", store.ErrInvalidInput, tenant)
		}
		parsed.Kind = store.PurgeSite
	default:
		return parsed, fmt.Errorf("%w: unknown kind of target %.40q; expected one of %s", store.ErrInvalidInput, kind, strings.Join(Kinds(), ", "))
	}
	if err == nil {
		err = parsed.Validate()
	}
	return parsed, err
}

// pageText returns the text of the cache key of a URL.
func pageText(url string) (string, error) {
	if strings.HasSuffix(url, "*") {
		return "", fmt.Errorf("%w: %q ends in *; to purge all pages below it give the prefix: isr purge --prefix %s", store.ErrInvalidInput, canonical.Shown(url), strings.TrimRight(canonical.Shown(url), "*"))
	}
	k, err := store.ParseAddress("", url)
	return k.Text, err
}

// prefixText returns the prefix of cache keys that a prefix of URLs stands for. Its host and
// path are normalized as the paths of keys are.
func prefixText(prefix string) (string, error) {
	prefix = canonical.AddressPrefix(prefix)
	switch {
	case strings.HasSuffix(prefix, "*"):
		return "", fmt.Errorf("%w: the prefix %q ends in *, which would be taken literally; give %q", store.ErrInvalidInput, canonical.Shown(prefix), strings.TrimRight(canonical.Shown(prefix), "*"))
	case strings.HasPrefix(prefix, "/"):
		return "", fmt.Errorf("%w: the prefix %q has no host; a prefix begins with one, like example.com%s", store.ErrInvalidInput, canonical.Shown(prefix), canonical.Shown(prefix))
	case !strings.Contains(withoutScheme(prefix), "/"):
		return "", fmt.Errorf("%w: the prefix %q must begin with a host and a slash, like example.com/; for all pages of a host give the host", store.ErrInvalidInput, canonical.Shown(prefix))
	}
	// A query or a variant may be incomplete, and is compared as it is.
	end := strings.IndexAny(prefix, "?#")
	if end < 0 {
		end = len(prefix)
	}
	k, err := store.ParseKey("", prefix[:end])
	return k.Text + prefix[end:], err
}

// hostText returns the prefix of the cache keys of a host.
func hostText(host string) (string, error) {
	k, err := store.ParseAddress("", host)
	if err != nil {
		return "", err
	}
	if name, path, query, variant := k.Split(); path != "/" || query != "" || variant != "" {
		return "", fmt.Errorf("%w: the host %q has a path; give only %s, or the whole as a prefix", store.ErrInvalidInput, canonical.Shown(host), name)
	}
	return k.Text, nil
}

func withoutScheme(url string) string {
	_, rest, found := strings.Cut(url, "://")
	if !found {
		return url
	}
	return rest
}
