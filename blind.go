package isr

import (
	"errors"
	"fmt"
	"time"
)

// A BlindPolicy decides what visitors get from a node that has not read the log for longer
// than Config.MaxBlind: whatever it has, in memory or in the store, may have been purged
// or rolled back since. Requests that bypass the cache are not affected, nor is a node
// that has never read the log, which renders every page.
type BlindPolicy int

const (
	// BlindServe serves pages as usual, with detail=cut-off. It is the zero value.
	BlindServe BlindPolicy = iota
	// BlindRefuse answers with 503 and Retry-After.
	BlindRefuse
)

func (p BlindPolicy) String() string {
	switch p {
	case BlindServe:
		return "serve"
	case BlindRefuse:
		return "refuse"
	}
	return fmt.Sprintf("BlindPolicy(%d)", int(p))
}

// MarshalText implements [encoding.TextMarshaler].
func (p BlindPolicy) MarshalText() ([]byte, error) {
	if !p.valid() {
		return nil, fmt.Errorf("%s is not a blind policy", p)
	}
	return []byte(p.String()), nil
}

// UnmarshalText parses the result of [BlindPolicy.String].
func (p *BlindPolicy) UnmarshalText(text []byte) error {
	for _, known := range []BlindPolicy{BlindServe, BlindRefuse} {
		if string(text) == known.String() {
			*p = known
			return nil
		}
	}
	if string(text) == "revalidate" {
		return errors.New("the blind policy revalidate was removed; use refuse if a purged page must never be served, else serve")
	}
	return fmt.Errorf("%q is not a blind policy; expected serve or refuse", text)
}

func (p BlindPolicy) valid() bool { return p >= BlindServe && p <= BlindRefuse }

var errBlind = errors.New("this server has not read the log of changes for longer than it may serve pages")

// blind reports whether the node has not read the log for so long that [Config.Blind]
// applies. It is on the hit path.
func (c *Cache) blind(now time.Time) bool { return c.cfg.Blind != BlindServe && c.follower.Blind(now) }
