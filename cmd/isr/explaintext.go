package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/cmd/isr/server"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/internal/units"
)

// writeExplained writes an explanation as text.
func writeExplained(to io.Writer, e admin.Explained) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, printable(fmt.Sprintf(format, args...)))
	}
	line("request", "%s %s", e.Method, e.URL)
	for _, p := range []struct {
		name string
		*admin.Place
	}{{"listener", e.Listener}, {"host", e.Host}, {"route", e.Route}, {"origin", e.Origin}} {
		if p.Place != nil {
			line(p.name, "%s", server.PlaceText(*p.Place))
		}
	}
	if e.Key != "" {
		line("key", "%s", e.Key)
	}
	if e.Tenant != "" {
		line("tenant", "%s", e.Tenant)
	}
	if e.Variant != "" {
		line("variant", "%s", e.Variant)
	}
	if len(e.Tags) > 0 {
		line("tags", "%s", strings.Join(e.Tags, ", "))
	}
	writeState(line, e)
	fmt.Fprintln(w)
	line("verdict", "%s", verdictText(e))
	for i, r := range e.Reasons {
		name := ""
		if i == 0 {
			name = "because"
		}
		text := r.Text
		if r.RFC != "" {
			text += " (" + r.RFC + ")"
		}
		line(name, "%s", text)
		if r.Advice != "" {
			line("", "→ %s", r.Advice)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := writeFetched(to, e.Fetched); err != nil {
		return err
	}
	return writeParts(to, e.Parts)
}

// verdictText is the verdict with what the visitor gets.
func verdictText(e admin.Explained) string {
	text := e.Verdict
	if e.Status > 0 {
		text += fmt.Sprintf(" %d", e.Status)
	}
	if e.CacheStatus != "" {
		text += "  Cache-Status: " + e.CacheStatus
	}
	if e.Open {
		text += " … (the origin decides the rest; --fetch asks it)"
		if e.Fetched != nil || e.Key == "" {
			text = strings.Replace(text, "; --fetch asks it", "", 1)
		}
	}
	return text
}

// writeState writes the state of the page in memory and in the store, and its lease.
func writeState(line func(name, format string, args ...any), e admin.Explained) {
	if !e.Running {
		line("memory", "not known: no server was asked")
	}
	if m := e.Memory; m != nil && e.Key != "" {
		line("memory", "%s", memoryText(m))
	}
	if m := e.Memory; m != nil {
		for _, down := range m.StoresDown {
			line("problem", "the store of the %s does not answer: its circuit breaker is open", down)
		}
		if m.OriginDown {
			line("problem", "too many renders of the origin have failed in a row: its circuit breaker is open")
		}
	}
	p := e.Stored
	if p == nil {
		return
	}
	line("store", "%s", storedText(p))
	if p.PurgedAt > 0 {
		line("purged", "%s", purgedText(*p))
	}
	if !p.PinnedUntil.IsZero() {
		line("pinned", "%s", pinText(p.PinnedUntil))
	}
	line("lease", "%s", pageLease(*p))
	if p.BodyProblem != "" {
		line("problem", "the body cannot be served: %s", p.BodyProblem)
	}
	if p.Malformed != "" {
		line("problem", "%s; the row counts as missing", p.Malformed)
	}
	if q := e.Quarantined; q != nil {
		line("quarantine", "generation %s was rejected at %s: %s", q.Generation, q.RejectedAt.Format(time.RFC3339), q.Reason)
	}
}

func storedText(p *admin.Page) string {
	text := stateText(*p)
	if p.Foreign {
		text += ", written by another service"
	}
	if p.Generation != "" {
		text += ", generation " + p.Generation
	}
	return text
}

func memoryText(m *admin.Memory) string {
	text := "missing"
	if m.State != "" {
		text = stateText(admin.Page{State: m.State, FreshFor: m.FreshFor, StaleFor: m.StaleFor, PinnedUntil: m.PinnedUntil})
		switch {
		case m.Negative:
			text += ", a response such as 404 that is not stored"
		case m.Unpublished:
			text += ", rendered and not stored"
		}
		if m.Generation != "" {
			text += ", generation " + m.Generation
		}
	}
	if m.Rejected {
		text += ", the last render was rejected"
	}
	if m.Refused != "" {
		text += fmt.Sprintf(", the last render was not cacheable: %s (remembered until %s)", m.Refused, m.Until.Format(time.RFC3339))
	}
	if m.FailedStatus > 0 {
		text += fmt.Sprintf(", the last render failed with %d (shown until %s)", m.FailedStatus, m.Until.Format(time.RFC3339))
	}
	if m.Rendering {
		text += ", a request for it is in progress"
	}
	return text
}

// writeFetched writes what the origin has answered.
func writeFetched(to io.Writer, f *admin.Fetched) error {
	if f == nil {
		return nil
	}
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\nfetched\tstatus %d in %s, %s\n", f.Status, time.Duration(f.Took)*time.Millisecond, printable(fetchedText(f)))
	for _, name := range slices.Sorted(maps.Keys(f.Header)) {
		for _, value := range f.Header[name] {
			fmt.Fprintf(w, "\t%s: %s\n", name, printable(value))
		}
	}
	for _, o := range f.Obstacles {
		rfc := ""
		if o.RFC != "" {
			rfc = " (" + o.RFC + ")"
		}
		fmt.Fprintf(w, "%s\t%s%s\n", o.Detail, printable(o.What), rfc)
		if o.Advice != "" {
			fmt.Fprintf(w, "\t→ %s\n", printable(o.Advice))
		}
	}
	return w.Flush()
}

func fetchedText(f *admin.Fetched) string {
	switch {
	case f.Failure != "":
		return "failed: " + f.Failure
	case !f.Stored:
		return "not cacheable"
	}
	text := fmt.Sprintf("%s, cacheable: fresh for %s", units.Bytes(f.Bytes), cli.Seconds(f.FreshFor))
	if f.StaleFor > 0 {
		text += ", then stale for " + cli.Seconds(f.StaleFor)
	}
	if len(f.Tags) > 0 {
		text += ", tags " + strings.Join(f.Tags, ", ")
	}
	return text
}

// writeParts writes the parts of a request as a table.
func writeParts(to io.Writer, parts []admin.RequestPart) error {
	if len(parts) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "\nPART\tUSE\tIN KEY\tWHY\n")
	for _, p := range parts {
		value := p.Value
		if value == "" {
			value = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", printable(strings.TrimSpace(p.Kind+" "+p.Name)), p.Use, printable(value), p.Why)
	}
	return w.Flush()
}
