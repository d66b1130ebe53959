package isr

import (
	"strconv"
	"strings"
	"time"
)

// The values of the fwd parameter, RFC 9211, section 2.2.
const (
	fwdBypass = "bypass"
	fwdMethod = "method"
	fwdMiss   = "miss"
	fwdStale  = "stale"
)

// Further reasons, as the detail of Cache-Status.
const (
	detailStale         = "stale"
	detailCutOff        = "cut-off"
	detailNegative      = "negative"
	detailStaleIfError  = "stale-if-error"
	detailStoreError    = "store-error"
	detailMinUses       = "min-uses"
	detailNoRoom        = "no-room"
	detailPinned        = "pinned"
	detailBackOff       = "back-off"
	detailFailed        = "render-failed"
	detailTimeout       = "timeout"
	detailHeld          = "held"
	detailOriginBusy    = "origin-busy"
	detailOriginFailing = "origin-failing"
	detailClosing       = "closing"
	detailUnpublished   = "unpublished"
	detailBadRequest    = "bad-request"
)

// A cacheStatus is the cache's own member of the Cache-Status field (RFC 9211).
type cacheStatus struct {
	hit       bool
	fwd       string // why the request went to the renderer, if it did
	fwdStatus int
	stored    bool
	collapsed bool
	hasTTL    bool
	ttl       time.Duration // remaining freshness; negative when stale
	detail    string        // a token
}

func (s cacheStatus) String() string {
	var b strings.Builder
	b.Grow(64)
	b.WriteString("isr")
	switch {
	case s.hit:
		b.WriteString("; hit")
	case s.fwd != "":
		b.WriteString("; fwd=")
		b.WriteString(s.fwd)
	}
	if s.fwdStatus > 0 {
		b.WriteString("; fwd-status=")
		b.WriteString(strconv.Itoa(s.fwdStatus))
	}
	if s.stored {
		b.WriteString("; stored")
	}
	if s.collapsed {
		b.WriteString("; collapsed")
	}
	if s.hasTTL {
		b.WriteString("; ttl=")
		b.WriteString(strconv.FormatInt(floorSeconds(s.ttl), 10))
	}
	if s.detail != "" {
		b.WriteString("; detail=")
		b.WriteString(s.detail)
	}
	return b.String()
}

// floorSeconds rounds towards minus infinity, so that a page that has just
// become stale never says ttl=0.
func floorSeconds(d time.Duration) int64 {
	n := int64(d / time.Second)
	if d%time.Second < 0 {
		n--
	}
	return n
}
