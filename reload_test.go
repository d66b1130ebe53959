package isr

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestReloadsOvertakeOlderReadings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r reloads
		k, other := Key{Text: "h/"}, Key{Text: "h/other"}
		start := time.Now()
		if r.allows(k, start) {
			t.Error("something may be kept before the sequence is known")
		}
		r.everything(start)
		if !r.allows(k, start) || r.allows(k, start.Add(-1)) {
			t.Error("the floor is not where it was set")
		}
		time.Sleep(time.Second)
		reloaded := time.Now()
		r.page(k, reloaded)
		if r.allows(k, start) || !r.allows(k, reloaded) || !r.allows(other, start) {
			t.Error("a reload is not of its page alone, or not of what was read before")
		}
		time.Sleep(2 * LogLife)
		if r.allows(other, start) {
			t.Error("a reading may be kept that took longer than reloads are remembered")
		}
	})
}

// However many pages are reloaded, their number in memory is bounded, and no older
// reading gets in.
func TestReloadsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r reloads
		r.everything(time.Now())
		start, first := time.Now(), Key{Text: "h/0"}
		time.Sleep(time.Second)
		for i := range maxReloads + 1 {
			r.page(Key{Text: fmt.Sprint("h/", i)}, time.Now())
		}
		if len(r.last) > maxReloads || r.allows(first, start) || !r.allows(first, time.Now()) {
			t.Errorf("%d are remembered, and a reading from before is allowed: %v", len(r.last), r.allows(first, start))
		}

		recent := Key{Text: "h/recent"}
		for i := range maxReloads {
			r.page(Key{Text: fmt.Sprint("h/again/", i)}, time.Now())
		}
		time.Sleep(LogLife + time.Second)
		now := time.Now()
		r.page(recent, now)
		if len(r.last) != 1 || r.tooOld(now.Add(-time.Minute)) {
			t.Errorf("%d are remembered after their time, or all pages were dropped for one", len(r.last))
		}
	})
}

// A page that is put while it is reloaded does not stay.
func TestMemoryRefusesWhatWasReloaded(t *testing.T) {
	start := time.Now()
	m := testMemory(t, start)
	k := Key{Text: "h/"}
	p := newPage(k, Entry{Version: 1}, Cover{}, start, nil)
	m.put(p)
	if m.get(k) != p {
		t.Fatal("the page was not kept")
	}
	m.reloads.page(k, start.Add(1))
	m.drop(k)
	m.put(p)
	if m.get(k) != nil {
		t.Error("a page that was read before the reload got in")
	}
	m.put(newPage(k, Entry{Version: 1}, Cover{}, start.Add(1), nil))
	if m.get(k) == nil {
		t.Fatal("a page that was read after it did not get in")
	}
	m.reloads.everything(start.Add(2))
	if m.get(k) != nil {
		t.Error("a page is served that was overtaken with all others")
	}
}
