package isr_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
)

// The log has one line at level info for all renders of a minute, the last one when the cache is
// closed, and one at level debug for each.
func TestRendersAreSummedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 0
		c := tb.node(tb.store("a"), func(cfg *isr.Config) {
			cfg.Logger = slog.New(slog.NewTextHandler(tb.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		h := c.Handler(isr.Route{Name: "site"}, site)
		count := func(text string) int { return strings.Count(tb.log.String(), text) }
		for _, path := range paths(5) {
			get(h, path)
		}
		if n, lines := count("level=INFO"), count("level=DEBUG msg=rendered key=example.com/"); n != 0 || lines != 5 {
			t.Errorf("%d lines at level info, and %d renders at level debug; want none and 5", n, lines)
		}
		time.Sleep(time.Minute + time.Second)
		if n := count(`level=INFO msg="rendered pages" rendered=5 validated=0 bytes=`); n != 1 {
			t.Errorf("%d lines sum up a minute", n)
		}
		time.Sleep(10 * time.Minute) // of which there is nothing to say
		site.delay = 2 * time.Second
		get(h, "/slow")
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if n, last := count("rendered pages"), count("rendered=1 validated=0 bytes="); n != 2 || last != 1 || count("slowest=2s slowest_key=example.com/slow") != 1 {
			t.Errorf("the log is\n%s", tb.log)
		}
	})
}
