package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/cmd/isr/server"
	"github.com/facetheory/isr/internal/assess"
	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/config"
	"github.com/facetheory/isr/internal/logreader"
	"github.com/facetheory/isr/internal/survey"
	"github.com/facetheory/isr/internal/units"
)

type assessCommand struct {
	Logs    []string `arg:"" optional:"" name:"log" placeholder:"LOG" help:"Access logs, with gzip or without, in any order; - reads standard input."`
	Format  string   `env:"-" enum:",combined,json,caddy,alb,cloudfront" default:"" placeholder:"NAME" help:"Format of the logs: combined (nginx, Apache), json (nginx, isr), caddy, alb or cloudfront (by their first lines)."`
	Config  string   `env:"-" type:"path" placeholder:"FILE" help:"Configuration file to assess, instead of the usual settings."`
	Preset  string   `env:"-" placeholder:"NAME" help:"Preset to assess, instead of the usual settings."`
	Host    string   `env:"-" default:"example.com" placeholder:"NAME" help:"Host of the requests in a log that does not name it (${default})."`
	Compare bool     `env:"-" default:"true" negatable:"" help:"Forecast other settings too (${default})."`
	JSON    bool     `name:"json" help:"Write JSON."`
	HTML    string   `name:"html" env:"-" type:"path" placeholder:"FILE" help:"Write the report to this file too, as one HTML page with plots."`
	Memory  cli.Size `env:"-" default:"512MiB" placeholder:"BYTES" help:"Memory of the whole command, with all settings, at least 256MiB (${default}). It bounds how many pages are simulated; a site with more is estimated from a part of them."`
	Sample  float64  `env:"-" default:"0" placeholder:"SHARE" help:"Share of the pages that are simulated, more than 0 and at most 1; pages that are requested more often are more likely. 1 replays the whole log, if memory has room for its pages (${default}: as many as bound the time)."`

	URL       string  `name:"url" env:"-" placeholder:"URL" help:"Visit the pages of the site with this page, instead of reading a log."`
	Sitemap   string  `env:"-" placeholder:"URL" help:"Visit the pages of this sitemap, instead of reading a log."`
	Pages     int     `env:"-" default:"100" placeholder:"N" help:"Pages to visit, 1 to 5000 (${default})."`
	VisitRate float64 `env:"-" default:"4" placeholder:"N" help:"Pages to visit in a second, one at a time, at most: 0.1 to 50 (${default})."`
	Rate      float64 `env:"-" default:"0" placeholder:"N" help:"Requests per second that visitors make for the pages, for the forecast of a visited site (${default}: not known)."`
}

func (c *assessCommand) Help() string {
	return `Tells from an access log what a cache would gain, before anything is installed: the hit ratio, the requests that
the site still gets, the settings that gain most, memory and the cost of DynamoDB, and what cannot be cached and why.

  isr assess /var/log/nginx/access.log*
  zcat logs/*.gz | isr assess -
  isr assess --config isr.yaml --html report.html access.log

The cache itself answers the requests of the log, at the times of the log, with a site that answers what the log has.
Without --config and --preset it has a freshness window of a minute and a stale window of a day. A log shows no
cookies: the report says what the forecast assumes. It contains no addresses of clients and no values of query
parameters. Nothing is sent over the network.

The command stays within 512 MiB of memory (--memory) however long the log is. Of a long log, a part of the pages is
simulated, which the hashes of their keys choose, the more likely the more often they are requested; the hit ratio is then
within a point of that of all pages (--sample 1).

Without a log, --url and --sitemap visit pages of the site, and tell which can be cached, which not and why:

  isr assess --url https://example.com/
  isr assess --sitemap https://example.com/sitemap.xml --pages 500 --rate 20

They send GET requests, one at a time, to this site alone, and follow robots.txt. They end after an hour or a gibibyte.`
}

// maxLogs bounds the logs that are open at once.
const maxLogs = 500

func (c *assessCommand) Run(ctx context.Context, s *cli.Streams) error {
	sources := 0
	for _, given := range []bool{len(c.Logs) > 0, c.URL != "", c.Sitemap != ""} {
		if given {
			sources++
		}
	}
	switch {
	case sources != 1:
		return cli.Usagef("give access logs, or one of --url URL and --sitemap URL")
	case len(c.Logs) == 0:
		return c.visit(ctx, s)
	}
	return c.read(ctx, s)
}

// read reads logs.
func (c *assessCommand) read(ctx context.Context, s *cli.Streams) error {
	opts, err := c.options()
	if err != nil {
		return err
	}
	logs, err := c.open(s)
	if err != nil {
		return err
	}
	defer logs.close()
	show, end := progressBar(s, "reading", units.Bytes)
	if show != nil {
		opts.Progress = func() { show(logs.done.Load(), logs.total) }
	}
	merged := logreader.Merge(logs.readers)
	debug.SetMemoryLimit(opts.Memory - outsideHeap)
	report, err := assess.Run(ctx, merged, opts)
	end()
	lines, invalid, examples := merged.Lines()
	if err := write(s.Err, invalidText(lines, invalid, examples)); err != nil {
		return err
	}
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(c.Logs, ", "), err)
	}
	return c.show(s, report)
}

// outsideHeap is what the process has in memory besides what the Go runtime limits: the program itself.
const outsideHeap = 64 << 20

// visit visits the pages of a site.
func (c *assessCommand) visit(ctx context.Context, s *cli.Streams) error {
	at, err := c.site()
	if err != nil {
		return err
	}
	cfg := survey.CrawlConfig{Sitemap: c.Sitemap, Pages: c.Pages, Rate: c.VisitRate}
	show, end := progressBar(s, "visiting", numberText)
	if show != nil {
		cfg.Visited = func(pages int) { show(int64(pages), int64(c.Pages)) }
	}
	found, err := survey.Crawl(ctx, at, cfg)
	end()
	if err != nil {
		return err
	}
	return c.show(s, assess.OfSite(found, c.Rate))
}

// site returns the URL of the site that is visited, and validates the flags.
func (c *assessCommand) site() (*url.URL, error) {
	flag, text := "--url", c.URL
	if c.Sitemap != "" {
		flag, text = "--sitemap", c.Sitemap
	}
	at, ok := cli.ParsePageURL(text)
	switch {
	case !ok:
		return nil, cli.Usagef("%s %q is not a URL; expected one like https://example.com/", flag, canonical.Shown(text))
	case c.Config != "" || c.Preset != "":
		return nil, cli.Usagef("--config and --preset are for logs; isr init %s writes and tests a configuration for the site", canonical.Shown(text))
	case c.Pages < 1 || c.Pages > survey.MaxCrawl:
		return nil, cli.Usagef("--pages must be between 1 and %d (got %d)", survey.MaxCrawl, c.Pages)
	case !(c.VisitRate >= 0.1 && c.VisitRate <= 50): // also refuses NaN
		return nil, cli.Usagef("--visit-rate must be between 0.1 and 50 (got %g)", c.VisitRate)
	case !(c.Rate >= 0 && c.Rate <= 1e6):
		return nil, cli.Usagef("--rate must be between 0 and 1000000 (got %g)", c.Rate)
	}
	return at, nil
}

// An assessment is a report of a log or of a site.
type assessment interface {
	Write(to io.Writer) error
	WriteHTML(to io.Writer) error
}

// show writes a report as the flags say.
func (c *assessCommand) show(s *cli.Streams, report assessment) error {
	if c.HTML != "" {
		if err := writeHTML(c.HTML, report); err != nil {
			return err
		}
	}
	if c.JSON {
		return writeJSON(s.Out, report)
	}
	return report.Write(s.Out)
}

// writeHTML writes a report to a file.
func writeHTML(name string, report assessment) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(report.WriteHTML(file), file.Close())
}

// defaultSettings is what is assessed without --config and --preset.
const defaultSettings = `
origins: {site: {url: "http://127.0.0.1:3000"}}
defaults: {revalidate: 1m, stale: 1d}
`

// options returns what is assessed.
func (c *assessCommand) options() (opts assess.Options, err error) {
	var file *config.File
	name := "revalidate: 1m and stale: 1d"
	switch {
	case c.Config != "" && c.Preset != "":
		return opts, cli.Usagef("--config and --preset exclude each other; write preset: %s into the file", canonical.Shown(c.Preset))
	case c.Config != "":
		name = c.Config
		file, err = server.ReadConfig(c.Config)
	case c.Preset != "":
		if !slices.Contains(config.Presets(), c.Preset) {
			return opts, cli.Usagef("unknown preset %q; expected one of %s", c.Preset, strings.Join(config.Presets(), ", "))
		}
		name = "preset: " + c.Preset
		file, err = config.OfPreset(c.Preset)
	default:
		file, err = config.Parse("the usual settings", []byte(defaultSettings), func(string) (string, bool) { return "", false })
	}
	if err != nil {
		return opts, err
	}
	if c.Memory < assess.MinMemory {
		return opts, cli.Usagef("--memory must be at least %s (got %s)", units.Bytes(assess.MinMemory), units.Bytes(int64(c.Memory)))
	}
	host, ok := canonical.Host(c.Host)
	if !ok {
		return opts, cli.Usagef("--host %q is not a host name", canonical.Shown(c.Host))
	}
	if !(c.Sample >= 0 && c.Sample <= 1) { // also refuses NaN
		return opts, cli.Usagef("--sample must be between 0 and 1 (got %g)", c.Sample)
	}
	opts = assess.Options{Name: name, Host: host, Compare: c.Compare, Memory: int64(c.Memory), Sample: c.Sample}
	opts.Site, err = server.SiteConfig(file, slog.New(slog.DiscardHandler))
	return opts, err
}

// openLogs are the logs that are read.
type openLogs struct {
	readers []*logreader.Reader
	files   []*os.File
	done    atomic.Int64 // bytes
	total   int64        // 0 if it is not known
}

// open opens the logs.
func (c *assessCommand) open(s *cli.Streams) (_ *openLogs, err error) {
	if len(c.Logs) > maxLogs {
		return nil, cli.Usagef("%d logs are more than %d; give them as one: zcat logs/*.gz | isr assess -", len(c.Logs), maxLogs)
	}
	all := new(openLogs)
	defer func() {
		if err != nil {
			all.close()
		}
	}()
	for _, name := range c.Logs {
		var in io.Reader = s.In
		if name != "-" {
			file, err := os.Open(name)
			if err != nil {
				return nil, err
			}
			all.files = append(all.files, file)
			if info, err := file.Stat(); err == nil {
				all.total += info.Size()
			}
			in = file
		}
		r, err := logreader.New(name, &countingReader{in, &all.done}, c.Format)
		if err != nil {
			return nil, err
		}
		all.readers = append(all.readers, r)
	}
	return all, nil
}

func (l *openLogs) close() {
	for _, file := range l.files {
		_ = file.Close() // was only read
	}
}

// A countingReader counts what is read.
type countingReader struct {
	io.Reader
	n *atomic.Int64
}

func (r *countingReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.n.Add(int64(n))
	return n, err
}

// invalidText tells which lines are no requests; empty if there are none.
func invalidText(lines, invalid int64, examples []logreader.Example) string {
	if invalid == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "isr: %d of %d lines are no requests, and are left out:\n", invalid, lines)
	for _, e := range examples {
		fmt.Fprintf(&b, "  %s:%d: %s: %s\n", printable(e.File), e.Line, e.Why, printable(e.Text))
	}
	return b.String()
}
