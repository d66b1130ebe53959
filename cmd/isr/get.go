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

	"github.com/facetheory/isr"
)

type getCommand struct {
	Page   string `arg:"" name:"url" help:"URL of the page, or its key as isr ls shows it."`
	Tenant string `placeholder:"NAME" help:"Tenant of the page, on a site with tenants."`
	JSON   bool   `name:"json" help:"Write JSON."`

	storeFlags `embed:""`
}

// errNothingStored makes the exit code tell what the text tells.
var errNothingStored = errors.New("nothing is stored of this page")

func (c *getCommand) Run(ctx context.Context, s *streams) (err error) {
	k, err := isr.ParseKey(c.Tenant, c.Page)
	if err != nil {
		return usagef("%v", err)
	}
	who, closeStore, err := c.inspect(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	rep, err := who.get(ctx, k)
	if err != nil {
		return err
	}
	if c.JSON {
		err = writeJSON(s.out, rep)
	} else {
		err = rep.write(s.out)
	}
	if err == nil && rep.Body == "" && rep.Malformed == "" {
		return errNothingStored
	}
	return err
}

func writeJSON(w io.Writer, v any) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(v)
}

// write shows a report to people, a line for each thing.
func (r report) write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	line("key", "%s", r.Key)
	line("state", "%s", r.stateText())
	if r.Body != "" {
		line("generated", "%s (%s ago)", r.GeneratedAt.Format(time.RFC3339), seconds(r.AgeSeconds))
		line("status", "%d", r.Status)
		line("etag", "%s", r.ETag)
		line("body", "%s, %s", r.Body, bytesText(r.BodyBytes))
		if r.BodyProblem != "" {
			line("problem", "the body cannot be served: %s; the next request regenerates the page", r.BodyProblem)
		}
		if r.Foreign {
			line("writer", "another service")
		}
		if len(r.Tags) > 0 {
			line("tags", "%s", strings.Join(r.Tags, " "))
		}
		if !r.KeptUntil.IsZero() {
			line("kept until", "%s", r.KeptUntil.Format(time.RFC3339))
		}
	}
	line("lease", "%s", r.leaseText())
	if r.Malformed != "" {
		line("problem", "%s; the row counts as missing and the next publish replaces it", r.Malformed)
	}
	line("partition", "%s", r.Partition)
	return t.Flush()
}

// stateText is the state with the time that is left of it.
func (r report) stateText() string {
	switch r.State {
	case isr.Fresh.String():
		if r.FreshFor >= 0 {
			return fmt.Sprintf("fresh for %s more", seconds(r.FreshFor))
		}
	case isr.Stale.String():
		return fmt.Sprintf("stale, may be served for %s more", seconds(r.StaleFor))
	}
	return r.State
}

func (r report) leaseText() string {
	left := time.Until(r.LeaseUntil).Round(time.Second)
	switch {
	case r.LeaseUntil.IsZero():
		return "free"
	case isr.Lock{Owner: r.LeaseOwner, Failures: r.LeaseFailures}.IsBackOff():
		return fmt.Sprintf("in back-off for %s more, after %d failures", spanText(left), r.LeaseFailures)
	}
	return fmt.Sprintf("held by %s for %s more", r.LeaseOwner, spanText(left))
}

func seconds(n int64) string { return spanText(time.Duration(n) * time.Second) }
