package httpcache

import (
	"strconv"
	"strings"
	"time"
)

// Values of the fwd parameter (RFC 9211, section 2.2).
const (
	ForwardBypass = "bypass"
	ForwardMethod = "method"
	ForwardMiss   = "miss"
	ForwardStale  = "stale"
)

// A Status is this cache's member of the Cache-Status field (RFC 9211). The zero value has
// no parameters.
type Status struct {
	Hit           bool
	Forward       string // why the request went to the renderer; empty if it did not
	ForwardStatus int
	Stored        bool
	Collapsed     bool
	HasTTL        bool
	TTL           time.Duration // remaining freshness; negative when stale
	Detail        string        // a token
}

func (s Status) String() string {
	var b strings.Builder
	b.Grow(64)
	b.WriteString("isr")
	switch {
	case s.Hit:
		b.WriteString("; hit")
	case s.Forward != "":
		b.WriteString("; fwd=")
		b.WriteString(s.Forward)
	}
	if s.ForwardStatus > 0 {
		b.WriteString("; fwd-status=")
		b.WriteString(strconv.Itoa(s.ForwardStatus))
	}
	if s.Stored {
		b.WriteString("; stored")
	}
	if s.Collapsed {
		b.WriteString("; collapsed")
	}
	if s.HasTTL {
		b.WriteString("; ttl=")
		b.WriteString(strconv.FormatInt(floorSeconds(s.TTL), 10))
	}
	if s.Detail != "" {
		b.WriteString("; detail=")
		b.WriteString(s.Detail)
	}
	return b.String()
}

// floorSeconds rounds towards minus infinity, so that a page that has just become stale does
// not have ttl=0.
func floorSeconds(d time.Duration) int64 {
	n := int64(d / time.Second)
	if d%time.Second < 0 {
		n--
	}
	return n
}
