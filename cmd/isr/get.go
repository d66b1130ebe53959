package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/internal/units"
	"github.com/facetheory/isr/store"
)

type getCommand struct {
	pageFlags `embed:""`
	JSON      bool `name:"json" help:"Write JSON."`

	askFlags `embed:""`
}

// errNothingStored sets the exit code if the page is not stored.
var errNothingStored = errors.New("page is not stored")

func (c *getCommand) Run(ctx context.Context, s *cli.Streams) error {
	k, err := c.key()
	if err != nil {
		return err
	}
	return c.ask(ctx, func(client *admin.Client) error {
		p, err := client.Page(ctx, admin.TargetOf(k))
		if err != nil {
			return err
		}
		if c.JSON {
			err = writeJSON(s.Out, p)
		} else {
			err = writePage(s.Out, p)
		}
		if err == nil && p.Body == "" && p.Malformed == "" {
			return errNothingStored
		}
		return err
	})
}

func writeJSON(w io.Writer, v any) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(v)
}

// writePage writes a page as text, one attribute per line.
func writePage(w io.Writer, p admin.Page) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	line("key", "%s", p.Key)
	line("state", "%s", stateText(p))
	if p.Body != "" {
		line("generated", "%s (%s ago)", p.GeneratedAt.Format(time.RFC3339), cli.Seconds(p.AgeSeconds))
		line("status", "%d", p.Status)
		line("etag", "%s", p.ETag)
		line("body", "%s, %s", p.Body, units.Bytes(p.BodyBytes))
		if p.BodyProblem != "" {
			line("problem", "the body cannot be served: %s; the next request regenerates the page", p.BodyProblem)
		}
		if p.Foreign {
			line("writer", "another service")
		}
		if len(p.Tags) > 0 {
			line("tags", "%s", strings.Join(p.Tags, " "))
		}
		if p.PurgedAt > 0 {
			line("purged", "%s", purgedText(p))
		}
		if !p.PinnedUntil.IsZero() {
			line("pinned", "%s", pinText(p.PinnedUntil))
		}
		if !p.KeptUntil.IsZero() {
			line("kept until", "%s", p.KeptUntil.Format(time.RFC3339))
		}
	}
	line("lease", "%s", pageLease(p))
	if p.Malformed != "" {
		line("problem", "%s; the row counts as missing and the next publish replaces it", p.Malformed)
	}
	line("partition", "%s", p.Partition)
	return t.Flush()
}

// stateText returns the state of a page, with the time left in it.
func stateText(p admin.Page) string {
	switch p.State {
	case store.Fresh.String():
		switch {
		case !p.PinnedUntil.IsZero():
			return "fresh while it is pinned"
		case p.FreshFor >= 0:
			return fmt.Sprintf("fresh for %s more", cli.Seconds(p.FreshFor))
		}
	case store.Stale.String():
		return fmt.Sprintf("stale, may be served for %s more", cli.Seconds(p.StaleFor))
	}
	return p.State
}

// purgedText describes the newest purge of a page.
func purgedText(p admin.Page) string {
	how := "softly"
	if p.HardAt == p.PurgedAt {
		how = "hard"
	}
	switch {
	case p.HardAt > p.PurgeSeq:
		return fmt.Sprintf("hard at %d, and was rendered before, at %d: it is not served", p.HardAt, p.PurgeSeq)
	case p.PurgedAt > p.PurgeSeq:
		return fmt.Sprintf("%s at %d, and was rendered before, at %d", how, p.PurgedAt, p.PurgeSeq)
	}
	return fmt.Sprintf("%s at %d, before it was rendered, at %d", how, p.PurgedAt, p.PurgeSeq)
}

func pageLease(p admin.Page) string {
	state := admin.LeaseHeld
	switch {
	case p.LeaseUntil.IsZero():
		state = admin.LeaseFree
	case store.Lock{Owner: p.LeaseOwner, Failures: p.LeaseFailures}.IsBackOff():
		state = admin.LeaseBackOff
	}
	return leaseText(state, p.LeaseOwner, time.Until(p.LeaseUntil).Round(time.Second), p.LeaseFailures)
}
