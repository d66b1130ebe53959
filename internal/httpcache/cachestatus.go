package httpcache

import (
	"strconv"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
)

// Values of the fwd parameter (RFC 9211, section 2.2).
const (
	ForwardBypass  = "bypass"
	ForwardMethod  = "method"
	ForwardMiss    = "miss"
	ForwardStale   = "stale"
	ForwardRequest = "request"
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

// maxUpstreamStatus bounds what a stored response has of Cache-Status, in bytes: some ten members.
const maxUpstreamStatus = 1 << 10

// UpstreamStatus returns the Cache-Status of the caches between the origin and this one, as one
// line to which this cache appends its own member (RFC 9211, section 2). It is empty if there is
// none, if it is longer than a kilobyte, or if it is no valid list, which would make the whole
// field invalid.
func UpstreamStatus(lines []string) string {
	upstream := strings.Join(lines, ", ")
	if upstream == "" || len(upstream) > maxUpstreamStatus {
		return ""
	}
	if _, err := httpsfv.UnmarshalList(lines); err != nil {
		return ""
	}
	return upstream
}

// After returns the member as the last one of a Cache-Status field that upstream begins, which may
// be empty.
func (s Status) After(upstream string) string {
	if upstream == "" {
		return s.String()
	}
	return upstream + ", " + s.String()
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
