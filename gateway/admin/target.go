package admin

import (
	"github.com/facetheory/isr/store"
)

// A Target names one page, by its URL or by its key.
type Target struct {
	URL    string `json:"url,omitempty" doc:"URL of the page, with the query parameters that are part of its key."`
	Key    string `json:"key,omitempty" doc:"Key of the page, as the list of pages has it; instead of url."`
	Tenant string `json:"tenant,omitempty" doc:"Tenant of the page, on a site with tenants."`
}

// TargetOf returns the target of a key.
func TargetOf(k store.Key) Target { return Target{Key: k.Text, Tenant: k.Tenant} }

func (t Target) key() (store.Key, error) {
	if (t.URL == "") == (t.Key == "") {
		return store.Key{}, invalid("which page? give one of url and key")
	}
	return store.ParseKey(t.Tenant, t.URL+t.Key)
}

// target is the key, for audit lines; what is none is shown as it came.
func (t Target) target() string {
	k, err := t.key()
	if err != nil {
		return t.URL + t.Key
	}
	return k.String()
}
