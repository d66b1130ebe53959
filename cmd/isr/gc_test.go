package main

import (
	"strings"
	"testing"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/admin"
)

// TestCollectedText: isr gc reports its changes to purge marks and pins, if there are any.
func TestCollectedText(t *testing.T) {
	for want, dry := range map[string]bool{
		"removed 1 of 3 bodies, 10 B\nremoved 4 purge marks that newer purges include\nrenewed 5 permanent pins\n":               false,
		"would remove 1 of 3 bodies, 10 B\nwould remove 4 purge marks that newer purges include\nwould renew 5 permanent pins\n": true,
	} {
		var out strings.Builder
		c := &gcCommand{DryRun: dry}
		if err := c.writeSum(&cli.Streams{Out: &out}, admin.Collected{Bodies: 1, Bytes: 10, Kept: 2, Marks: 4, Pins: 5}); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("isr gc wrote %q, want %q", out.String(), want)
		}
	}
}
