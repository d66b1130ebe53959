package admin

import (
	"github.com/facetheory/isr/store"
)

// A Target names one page, by its URL or by its key.
type Target struct {
	URL    string `json:"url,omitempty" doc:"URL of the page, with the query parameters that are part of its key."`
	Key    string `json:"key,omitempty" doc:"Cache key of the page, as in the list of pages; instead of url."`
	Tenant string `json:"tenant,omitempty" doc:"Tenant of the page, on a site with tenants."`
}

// TargetOf returns the target of a key.
func TargetOf(k store.Key) Target { return Target{Key: k.Text, Tenant: k.Tenant} }

func (t Target) key() (store.Key, error) {
	if (t.URL == "") == (t.Key == "") {
		return store.Key{}, invalid("give either url or key")
	}
	if t.URL != "" {
		return store.ParseAddress(t.Tenant, t.URL)
	}
	return store.ParseKey(t.Tenant, t.Key)
}

// target returns the key for the audit log; an invalid one is returned as received.
func (t Target) target() string {
	k, err := t.key()
	if err != nil {
		return t.URL + t.Key
	}
	return k.String()
}
