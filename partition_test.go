package isr_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/store"
)

// No method reaches a partition of another tenant by an invalid key.
func TestInvalidKeysAreRefused(t *testing.T) {
	tb := newTable(t)
	p := tb.peer("a", withHistory, newSite(), nil)
	for name, k := range map[string]store.Key{
		"no text":            {},
		"a tenant alone":     {Tenant: "acme"},
		"a tenant with a #":  {Tenant: "acme#CACHE", Text: "h/"},
		"a long tenant":      {Tenant: strings.Repeat("x", 65), Text: "h/"},
		"a long text":        {Text: strings.Repeat("x", 4097)},
		"text that is bytes": {Text: "h/#\xff"},
	} {
		_, regenerate := p.Regenerate(t.Context(), k)
		_, versions := p.Versions(t.Context(), k)
		_, rollback := p.Rollback(t.Context(), k)
		_, pin := p.Pin(t.Context(), k, time.Hour)
		_, unpin := p.Unpin(t.Context(), k)
		_, diff := p.Diff(t.Context(), k, "1", "2")
		for call, err := range map[string]error{
			"Regenerate": regenerate, "Versions": versions, "Rollback": rollback, "Pin": pin, "Unpin": unpin, "Diff": diff,
		} {
			if !errors.Is(err, store.ErrInvalidKey) {
				t.Errorf("%s of %s: %v, want ErrInvalidKey", call, name, err)
			}
		}
	}
	longest := store.Key{Tenant: strings.Repeat("x", 64), Text: strings.Repeat("x", 4096)}
	if _, err := p.Versions(t.Context(), longest); err != nil {
		t.Errorf("the longest key: %v", err)
	}
	if _, err := p.Pin(t.Context(), store.Key{Text: "h/"}, -time.Second); !errors.Is(err, store.ErrInvalidInput) {
		t.Errorf("a negative pin: %v, want ErrInvalidInput", err)
	}
}
