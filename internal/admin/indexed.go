package admin

import (
	"math"
	"strings"
	"time"

	"github.com/facetheory/isr/store"
)

// indexed returns what searches need of a page. Texts that many pages share are kept once, in
// texts.
func indexed(listed store.ListedPage, p Page, texts map[string]string) indexedPage {
	share := func(text string) string {
		if shared, ok := texts[text]; ok {
			return shared
		}
		text = strings.Clone(text)
		texts[text] = text
		return text
	}
	one := indexedPage{
		key: store.Key{Tenant: share(store.TenantOf(listed.PK)), Text: strings.Clone(p.Key)}, route: share(p.Route), owner: share(p.LeaseOwner), state: p.State,
		status: int16(min(p.Status, math.MaxInt16)), failures: int16(min(p.LeaseFailures, math.MaxInt16)), bytes: p.BodyBytes,
		generated: seconds(p.GeneratedAt), pinnedUntil: seconds(p.PinnedUntil), leaseUntil: seconds(p.LeaseUntil),
	}
	if listed.Record.Entry == nil && one.key.Tenant != "" {
		one.key.Text = strings.TrimPrefix(one.key.Text, one.key.Tenant+":") // as in Key.String
	}
	if p.Key == "" {
		one.partition = strings.Clone(listed.PK)
	}
	one.lower = strings.ToLower(one.key.Text) // the same text if it has no capitals
	if e := listed.Record.Entry; e != nil {
		one.freshUntil, one.staleUntil = seconds(e.FreshUntil()), seconds(e.StaleUntil())
	}
	for _, tag := range p.Tags {
		one.tags = append(one.tags, share(tag))
	}
	return one
}

// seconds returns a time in Unix seconds, 0 if there is none.
func seconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// partitionOf returns the partition key of an indexed page.
func (a *API) partitionOf(p *indexedPage) string {
	if p.partition != "" {
		return p.partition
	}
	return a.cfg.Partition(p.key)
}

// listed describes a page of a list; ok is false for the purge of a page that is not stored.
func (a *API) listed(listed store.ListedPage, marks marks, failing map[string]store.Key) (p Page, ok bool) {
	rec := listed.Record
	if rec.Entry == nil && rec.Lock == nil && rec.Malformed == nil && rec.Purges.Seq > 0 {
		return Page{}, false
	}
	if e := rec.Entry; e != nil {
		k := store.Key{Tenant: store.TenantOf(listed.PK), Text: e.Key}
		rec.Purges = rec.Purges.Merge(marks.covering(k, e.Tags, a.cfg.Now()))
	}
	p = a.describe(listed.PK, rec)
	if k, known := failing[listed.PK]; known && p.Key == "" {
		p.Key = k.String() // its back-off row has no key
	}
	return p, true
}
