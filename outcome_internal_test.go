package isr

import (
	"net/http"
	"testing"
	"time"

	"github.com/facetheory/isr/store"
)

// A page that outlives purge marks may have been purged hard, and nothing knows of that any more:
// neither stale-if-error nor a pin that has ended lets visitors have it in place of a failure.
func TestServableOnErrorOutlivesMarks(t *testing.T) {
	const lifetime = 90 * 24 * time.Hour
	now := time.Now()
	for name, c := range map[string]struct {
		age    time.Duration
		pinned time.Duration // when its pin ended, before now; 0: it was never pinned
		marks  time.Duration
		want   bool
	}{
		"within the life of marks":         {age: lifetime / 2, marks: lifetime, want: true},
		"beyond it":                        {age: lifetime + time.Hour, marks: lifetime},
		"in the margin of its last day":    {age: lifetime - time.Hour, marks: lifetime},
		"nothing was ever purged":          {age: lifetime + time.Hour, want: true},
		"pinned, within the life of marks": {age: lifetime / 2, pinned: time.Hour, marks: lifetime, want: true},
		"pinned, beyond it":                {age: lifetime + time.Hour, pinned: time.Hour, marks: lifetime},
	} {
		t.Run(name, func(t *testing.T) {
			e := &store.Entry{
				GeneratedAt: now.Add(-c.age), Revalidate: time.Minute, Status: http.StatusOK, PurgeSeq: 5,
				Header: http.Header{"Cache-Control": {"max-age=60, stale-if-error=31536000"}},
			}
			if c.pinned > 0 {
				e.PinnedUntil = now.Add(-c.pinned)
			}
			purges := store.PurgeState{MarkLifetime: c.marks}
			state := store.Freshness(e, purges, now)
			if got := new(routeRules).servableOnError(e, state, purges, now); state != store.Expired || got != c.want {
				t.Errorf("%s, %v; want expired, %v", state, got, c.want)
			}
		})
	}
}
