package isr

import (
	"testing"
	"time"
)

// A rollback may be asked for before the node has read the log for the first
// time, or while it cannot: nothing is kept in memory then that could be dropped.
// Package isrtest/simulator found that this was a panic.
func TestReloadBeforeTheLogWasRead(t *testing.T) {
	var r reloads
	k, asked := Key{Text: "example.com/"}, time.Now()
	r.page(k, asked)
	if r.allows(k, asked.Add(time.Second)) {
		t.Error("what was read before the log may not be kept, and was")
	}
	begun := asked.Add(time.Minute)
	r.everything(begun)
	if r.allows(k, asked.Add(time.Second)) || !r.allows(k, begun) {
		t.Error("what is read from the time of the log on may be kept, and nothing before")
	}
}
