package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/doctor"
	"github.com/facetheory/isr/internal/doctor/leak"
)

type doctorCommand struct {
	Config string `type:"path" placeholder:"FILE" help:"Configuration file of the server (isr.yaml, if this folder has one)."`
	JSON   bool   `name:"json" help:"Write JSON."`

	RegenerateQueue string `placeholder:"URL" help:"SQS queue of regenerations (regenerate.queue of the configuration file)."`
	PurgeQueue      string `placeholder:"URL" help:"SQS queue with purge requests (triggers.queue.url of the configuration file)."`

	askFlags  `embed:""`
	leakFlags `embed:""`
}

func (c *doctorCommand) Help() string {
	return `Examines the installation that the configuration file, the flags and the server in the data folder describe:
origins and their caching headers, clocks, table or data folder, bucket, queues, limits of files and memory, trusted proxies,
and the nodes of the fleet. It changes nothing but the object isr-check in the bucket. Its output has no secrets.

  isr doctor
  isr doctor --table pages --bucket my-pages

With --url it also tests the site for leaks: it requests pages without an identity and as two identities, A and B, in turns and
with different headers. It sends GET requests to the host of --url (and to --origin), and follows no links that seem to
log out or delete. A page costs up to 60 requests.

  isr doctor --url https://example.com/ --cookie-a session=… --cookie-b session=… --canary-a Alice --canary-b Bob

The exit code is 0 if nothing is wrong, 1 if there are warnings, and 2 if there are faults. See docs/doctor.md.`
}

// A doctorReport is the JSON of isr doctor.
type doctorReport struct {
	Version  string `json:"version"`
	Platform string `json:"platform"`
	Faults   int    `json:"faults"`
	Warnings int    `json:"warnings"`
	*doctor.Report
	Site *leak.Report `json:"site,omitempty"`
}

func (c *doctorCommand) Run(ctx context.Context, s *cli.Streams) error {
	test, err := c.leakTest(ctx, s.In)
	if err != nil {
		return cli.Usagef("%v", err)
	}
	in, err := c.look(ctx)
	if err != nil {
		return err
	}
	redact := doctor.NewRedactor(append(in.secrets, c.secrets()...)...)
	out := doctorReport{Version: cli.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Report: &doctor.Report{Findings: []doctor.Finding{}}}
	if test == nil || in.exists() {
		out.Report = doctor.Run(ctx, 0, redact, in.checks()...)
	}
	shown := len(out.Findings)
	if !c.JSON {
		// The leak test takes minutes.
		if err := out.Report.Write(s.Out); err != nil {
			return err
		}
	}
	if test != nil {
		test.Hosts = in.process.Hosts
		site, err := leak.Run(ctx, *test)
		out.Add(redact, siteFinding(c.URL, site, err))
		out.Site = redacted(site, redact)
	}
	return c.conclude(s.Out, out, shown)
}

// conclude writes the rest of a report, of which some findings were shown, and returns the
// error with its exit code.
func (c *doctorCommand) conclude(w io.Writer, out doctorReport, shown int) error {
	out.Faults, out.Warnings = out.Count(doctor.Fault), out.Count(doctor.Warning)
	if c.JSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		if err := e.Encode(out); err != nil {
			return err
		}
	} else if err := out.writeRest(w, shown); err != nil {
		return err
	}
	switch {
	case out.Faults > 0 && out.Warnings > 0:
		return cli.Usagef("found %s and %s", cli.Counted(out.Faults, "fault"), cli.Counted(out.Warnings, "warning"))
	case out.Faults > 0:
		return cli.Usagef("found %s", cli.Counted(out.Faults, "fault"))
	case out.Warnings > 0:
		return fmt.Errorf("found %s", cli.Counted(out.Warnings, "warning"))
	}
	return nil
}

// writeRest writes the report of the leak test, and the last line.
func (out doctorReport) writeRest(w io.Writer, shown int) error {
	rest := doctor.Report{Findings: out.Findings[shown:]}
	if err := rest.Write(w); err != nil {
		return err
	}
	if out.Site != nil {
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
		if err := out.Site.Write(w); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "\n%s, %s, %s. isr %s, %s\n", cli.Counted(out.Faults, "fault"), cli.Counted(out.Warnings, "warning"), cli.Counted(out.Count(doctor.Note), "note"), out.Version, out.Platform)
	return err
}

// siteFinding sums up a leak test of a URL; err is why it ended early.
func siteFinding(url string, r *leak.Report, err error) doctor.Finding {
	f := doctor.Finding{Check: "site", Severity: doctor.Fault}
	if r == nil || len(r.Pages) == 0 {
		f.What, f.Evidence, f.Do = "the site could not be examined", []string{fmt.Sprint(err)}, "give the URL of a page that is served through isr"
		return f
	}
	leaks, wrong := r.Count(leak.Leak), r.Count(leak.Wrong)
	f.What = fmt.Sprintf("%s of %s: %s, %d shared wrongly", cli.Counted(len(r.Pages), "page"), url, cli.Counted(leaks, "leak"), wrong)
	switch {
	case leaks > 0:
		f.Do = "see below what to do about each"
	case wrong > 0:
		f.Severity, f.Do = doctor.Warning, "see below what to do about each"
	default:
		f.Severity = doctor.OK
	}
	if err != nil {
		f.Evidence = append(f.Evidence, "ended early: "+err.Error())
		if f.Severity == doctor.OK {
			f.Severity, f.Do = doctor.Warning, "run it again"
		}
		if errors.Is(err, context.Canceled) {
			f.Evidence = []string{fmt.Sprintf("interrupted after %s", cli.Counted(len(r.Pages), "page"))}
		}
	}
	return f
}

// redacted returns a report of the leak test without secrets.
func redacted(r *leak.Report, redact *doctor.Redactor) *leak.Report {
	if r == nil {
		return nil
	}
	for i := range r.Pages {
		r.Pages[i].URL = redact.Text(r.Pages[i].URL)
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		f.URL, f.Subject, f.Problem, f.Do = redact.Text(f.URL), redact.Text(f.Subject), redact.Text(f.Problem), redact.Text(f.Do)
	}
	return r
}

// secrets are the texts of the identities.
func (c *leakFlags) secrets() (all []string) {
	for _, text := range append(append([]string{}, c.CookieA...), c.CookieB...) {
		_, value, _ := strings.Cut(text, "=")
		all = append(all, value)
	}
	for _, text := range append(append([]string{}, c.HeaderA...), c.HeaderB...) {
		_, value, _ := strings.Cut(text, ":")
		all = append(all, strings.TrimSpace(value))
	}
	return append(all, c.CanaryA, c.CanaryB)
}
