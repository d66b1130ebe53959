package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/store"
)

func errNoInput() error {
	return cli.Usagef("standard input names nothing to purge; expected one target per line: URL, tag:TAG, prefix:TEXT or host:NAME")
}

func errOneBatch(flag string) error {
	return cli.Usagef("%s takes at most %d targets, or half as many URLs; give a tag or a prefix that covers them", flag, store.MaxPurgeTargets)
}

// writeWarnings writes a line for each target that no page can have.
func writeWarnings(s *cli.Streams, warnings []string) {
	for _, w := range warnings {
		fmt.Fprintf(s.Err, "warning: %s\n", w)
	}
}

// writeNotStored writes a line for each URL of which no page was stored.
func writeNotStored(s *cli.Streams, pages []string) {
	for _, page := range pages {
		fmt.Fprintf(s.Err, "no stored page: %s\n", page)
	}
}

// purgeDone sums the results of the calls of a command.
type purgeDone struct {
	calls, targets int
	last           admin.Purged // of the last call
	units          float64
}

func (d *purgeDone) add(out admin.Purged) {
	d.calls++
	d.targets += len(out.Targets)
	d.last = out
	d.units += out.WriteUnits
}

// failed adds to the error of a call what was purged before it, and where to go on: line is
// the line of the first target that was not purged, 0 if it is not from standard input.
func (d *purgeDone) failed(err error, line int) error {
	switch {
	case d.calls == 0 && line == 0:
		return err
	case d.calls == 0:
		return fmt.Errorf("%w; nothing was purged", err)
	case line == 0:
		return fmt.Errorf("%w; the first %d targets were purged, the last of them at %d, and the others were not", err, d.targets, d.last.Seq)
	}
	return fmt.Errorf("%w; the first %d targets were purged, the last of them at %d; those from line %d on were not: repeat them", err, d.targets, d.last.Seq, line)
}

// write writes one line for all calls.
func (d *purgeDone) write(s *cli.Streams, dryRun bool) error {
	if dryRun {
		return writeWouldPurge(s, d.last)
	}
	what := strings.Join(d.last.Targets, ", ")
	switch n := len(d.last.Targets); {
	case d.calls > 1:
		what = fmt.Sprintf("%d targets in %d writes, the last", d.targets, d.calls)
	case n > 3:
		what = fmt.Sprintf("%s and %d more", strings.Join(d.last.Targets[:2], ", "), n-2)
	}
	effect := "stale"
	if d.last.Mode == admin.PurgeHard {
		effect = "never served again"
	}
	line := fmt.Sprintf("purged %s at %d: %s %s", what, d.last.Seq, effect, whereText(d.last))
	if d.units > 0 {
		line += fmt.Sprintf("; %s write units", strconv.FormatFloat(math.Round(d.units*10)/10, 'f', -1, 64))
	}
	if _, err := fmt.Fprintln(s.Out, line); err != nil {
		return err
	}
	return d.missing()
}

// missing returns an error that names the servers that have not applied the last purge.
func (d *purgeDone) missing() error {
	w := d.last.Waited
	switch {
	case w == nil:
		return nil
	case w.Problem != "":
		return fmt.Errorf("the purge is committed, but it is not known which servers have applied it: %s", w.Problem)
	case len(w.Missing) == 0:
		return nil
	}
	var names []string
	for _, m := range w.Missing[:min(len(w.Missing), 5)] {
		names = append(names, fmt.Sprintf("%s (at %d)", m.Name, m.Applied))
	}
	if more := len(w.Missing) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return fmt.Errorf("the purge is committed, but %d of %d servers have not reported it as applied after %s: %s; they apply it as soon as they reach the table",
		len(w.Missing), w.Servers, milliseconds(w.TookMS), strings.Join(names, ", "))
}

// whereText formats where and when a purge holds.
func whereText(p admin.Purged) string {
	switch w := p.Waited; {
	case w != nil && w.Problem != "":
		return "everywhere within the --poll of the servers"
	case w != nil && len(w.Missing) > 0:
		return fmt.Sprintf("on %d of %d servers after %s", w.Servers-len(w.Missing), w.Servers, milliseconds(w.TookMS))
	case w != nil && w.Servers == 0 && p.WithinMS == nil:
		return "everywhere: no isr server is running"
	case w != nil && w.Servers > 1:
		return fmt.Sprintf("on all %d servers after %s", w.Servers, milliseconds(w.TookMS))
	case p.WithinMS == nil:
		return "everywhere within the --poll of the servers"
	case *p.WithinMS > 0 && w == nil:
		return "everywhere within " + milliseconds(*p.WithinMS)
	}
	return "now"
}

func milliseconds(n int64) string {
	if n >= 10_000 {
		return fmt.Sprintf("%ds", n/1000)
	}
	return fmt.Sprintf("%dms", n)
}

func writeWouldPurge(s *cli.Streams, p admin.Purged) error {
	_, err := fmt.Fprintf(s.Out, "would purge %d of %d stored pages\n", p.DryRun.Pages, p.DryRun.Stored)
	for _, key := range p.DryRun.Examples {
		if err == nil {
			_, err = fmt.Fprintf(s.Out, "  %s\n", key)
		}
	}
	if more := p.DryRun.Pages - len(p.DryRun.Examples); more > 0 && err == nil {
		_, err = fmt.Fprintf(s.Out, "  and %d more\n", more)
	}
	return err
}
