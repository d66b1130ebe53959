package isr_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// TestPurgeDuringValidation: a purge that is committed while the origin validates the page covers
// the renewed entry: a hard one is never served, and both cause an unconditional render.
func TestPurgeDuringValidation(t *testing.T) {
	for _, hard := range []bool{false, true} {
		for name, target := range map[string]store.PurgeTarget{"key": isr.PurgeKey(page), "tag": isr.PurgeTag("", "news")} {
			t.Run(fmt.Sprintf("%s, hard=%t", name, hard), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tb, site := newTable(t), newSource()
					site.header = http.Header{"Cache-Tag": {"news"}}
					a, b := tb.node(tb.store("a"), nil), tb.node(tb.store("b"), nil)
					h := a.Handler(validated, site)
					get(h, "/")
					time.Sleep(61 * time.Second)
					site.set(func(s *source) { s.delay = 5 * time.Second })
					get(h, "/")
					time.Sleep(time.Second)
					if _, err := b.Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{target}, Hard: hard}); err != nil {
						t.Fatal(err)
					}
					site.set(func(s *source) { s.content = "two" }) // with the same tag
					time.Sleep(5 * time.Second)
					got := get(h, "/")
					if hard && got.Body.String() != "two" {
						t.Errorf("after a hard purge: %q, %q", got.Body, got.status())
					}
					time.Sleep(6 * time.Second)
					expect(t, get(h, "/"), "two", "isr; hit; ttl=")
					site.wantConditions(t, "", `"one"`, "")
				})
			})
		}
	}
}

// TestValidationWithoutFollowingTheLog: a process that does not follow the log validates a page
// only if there was no change of the log since the page was rendered.
func TestValidationWithoutFollowingTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSource()
		c := tb.node(tb.store("a"), func(cfg *isr.Config) { cfg.Poll = -1 })
		h := c.Handler(validated, site)
		for range 2 {
			get(h, "/")
			time.Sleep(61 * time.Second)
			synctest.Wait()
		}
		if _, err := c.Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{isr.PurgeTag("", "other")}}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			get(h, "/")
			time.Sleep(61 * time.Second)
			synctest.Wait()
		}
		site.wantConditions(t, "", `"one"`, "", `"one"`)
	})
}
