package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/config"
	"github.com/facetheory/isr/internal/details"
	"github.com/facetheory/isr/internal/doctor/leak"
	"github.com/facetheory/isr/internal/survey"
)

type initCommand struct {
	URL    string `arg:"" placeholder:"URL" help:"Page of the site, at the address where isr is to find it, like http://127.0.0.1:3000."`
	File   string `env:"-" type:"path" default:"isr.yaml" placeholder:"FILE" help:"File to write (isr.yaml)."`
	Preset string `env:"-" placeholder:"NAME" help:"Framework of the site, instead of the one that its pages show; none for no preset."`
	Test   bool   `env:"-" default:"true" negatable:"" help:"Test ten pages for leaks, through a server with the new file (${default})."`
}

func (c *initCommand) Help() string {
	return `Looks at a site, writes a configuration file for it, and tests it: the way from a slow site to a fast one.

  isr init http://127.0.0.1:3000
  isr serve --config isr.yaml

It sends at most 30 GET requests, four a second, all to the address that it is given: the page, robots.txt, the
sitemap, and up to ten pages of different sections. It names the framework, and writes the preset, freshness windows,
query parameters and the hosts, with a comment on each choice.

The test then starts a server with the new file on a free port of this machine, with a store in a temporary folder, and
requests ten pages through it as different visitors, ten requests a second, as isr doctor --url does. It shows which pages
are cached, which are not and why, and whether a visitor gets what is meant for another one: then the exit code is 1.`
}

// testRate is the rate of the leak test, in requests a second.
const testRate = 10

func (c *initCommand) Run(ctx context.Context, s *cli.Streams) error {
	at, ok := cli.ParsePageURL(c.URL)
	if !ok {
		return cli.Usagef("%q is not a URL; expected one like http://127.0.0.1:3000", canonical.Shown(c.URL))
	}
	if c.Preset != "" && c.Preset != "none" && !slices.Contains(config.Presets(), c.Preset) {
		return cli.Usagef("unknown preset %q; expected one of %s, or none", c.Preset, strings.Join(config.Presets(), ", "))
	}
	if err := refuseExisting(c.File); err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "Looking at %s (up to %d requests).\n", at, survey.MaxRequests)
	site, err := survey.Run(ctx, at, nil)
	if err != nil {
		return err
	}
	if c.Preset != "" {
		site.Framework = survey.Framework{Name: c.Preset, Preset: c.Preset, Trace: "--preset"}
		if c.Preset == "none" {
			site.Framework = survey.Framework{}
		}
	}
	if err := write(s.Out, foundText(site)); err != nil {
		return err
	}
	text, err := configOf(site, time.Now())
	if err != nil {
		return err
	}
	schema, err := writeConfig(c.File, text)
	if err != nil {
		return err
	}
	if err := write(s.Out, fmt.Sprintf("\nWrote %s and %s.\n", c.File, schema)); err != nil {
		return err
	}
	var leaks error
	if c.Test {
		leaks = c.test(ctx, s, site, text)
	}
	if ctx.Err() != nil {
		return leaks
	}
	return errors.Join(leaks, write(s.Out, c.nextText(site)))
}

func write(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

// foundText describes a site.
func foundText(site *survey.Site) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-11s %s\n", name, canonical.Shown(fmt.Sprintf(format, args...)))
	}
	b.WriteByte('\n')
	switch f := site.Framework; {
	case f.Name == "":
		line("framework", "not recognised; --preset names it")
	case f.Preset == "":
		line("framework", "%s (%s); there is no preset for it", f.Name, f.Trace)
	default:
		line("framework", "%s (%s)", f.Name, f.Trace)
	}
	if site.Redirects {
		line("host", "%s, to which the site redirects all others", site.Host)
	} else if site.Host != "" {
		line("host", "%s", site.Host)
	}
	if site.Sitemap != "" {
		line("sitemap", "%s, %s", site.Sitemap, cli.Counted(site.Listed, "page"))
	}
	stated, refused, slowest := 0, map[string]int{}, time.Duration(0)
	for _, p := range site.Pages {
		if p.Stated > 0 {
			stated++
		}
		if p.Refused != "" {
			refused[p.Refused]++
		}
		slowest = max(slowest, p.Took)
	}
	line("pages", "%d visited, the slowest took %s", len(site.Pages), slowest.Round(time.Millisecond))
	line("freshness", "%d of %d pages state how long they are fresh", stated, len(site.Pages))
	for _, reason := range slices.Sorted(maps.Keys(refused)) {
		meaning := reason
		if detail, ok := details.OfRefusal(reason); ok {
			meaning = detail.Meaning
		}
		line("", "%s may not be stored: %s", cli.Counted(refused[reason], "page"), meaning)
	}
	for _, cookie := range site.SetCookies() {
		line("cookie", "%s is set by %s", cookie.Name, cli.Counted(cookie.Pages, "page"))
	}
	return b.String()
}

// configOf returns the configuration file of a site.
func configOf(site *survey.Site, today time.Time) (string, error) {
	var of survey.Preset
	if preset := site.Framework.Preset; preset != "" {
		f, err := config.OfPreset(preset)
		if err != nil {
			return "", err
		}
		for _, r := range f.Routes {
			if r.Match == "/" {
				of = survey.Preset{Query: r.Query, IgnoreCookies: r.IgnoreCookies, Window: r.Revalidate != config.Window{}}
			}
		}
	}
	text, err := validConfig(site.Config(of, today))
	if err != nil {
		return "", fmt.Errorf("the site cannot be configured: %w", err)
	}
	return text, nil
}

// nextText tells what to do with the new file.
func (c *initCommand) nextText(site *survey.Site) string {
	show := "curl -so /dev/null -D - http://127.0.0.1:8080/ | grep -i cache-status"
	if site.Redirects {
		show = fmt.Sprintf("curl -so /dev/null -D - -H 'Host: %s' http://127.0.0.1:8080/ | grep -i cache-status", site.Host)
	}
	return fmt.Sprintf("\nStart it:\n\n  isr serve --config %s\n  %s\n\nThen docs/start.md: watch it, move the port, purge on publish.\n", c.File, show)
}

// test runs the leak test on pages of the site, through a server with the new configuration.
func (c *initCommand) test(ctx context.Context, s *cli.Streams, site *survey.Site, text string) error {
	fmt.Fprintf(s.Out, "\nTesting %s through isr for leaks, for up to %s.\n", cli.Counted(len(site.Pages), "page"), time.Duration(len(site.Pages)*60/testRate)*time.Second)
	folder, err := os.MkdirTemp("", "isr-init-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }() // temporary
	address, stop, err := trial(ctx, folder, text)
	if err != nil {
		return err
	}
	defer stop()
	show, end := progressBar(s, "testing", numberText)
	// The report names the address at which the new file listens.
	cfg := leak.Config{URL: &url.URL{Scheme: "http", Host: "127.0.0.1:8080", Path: "/"}, MaxPages: survey.MaxPages, Rate: testRate, Transport: to(address)}
	if site.Redirects {
		cfg.URL.Host = site.Host // the only one for which the site answers
	}
	first, err := cfg.URL.Parse(site.Pages[0].Path)
	if err != nil {
		return err
	}
	cfg.URL = first
	for _, p := range site.Pages[1:] {
		cfg.Pages = append(cfg.Pages, p.Path)
	}
	if show != nil {
		cfg.Examined = func(pages int) { show(int64(pages), int64(len(site.Pages))) }
	}
	report, err := leak.Run(ctx, cfg)
	end()
	if report != nil {
		err = errors.Join(err, write(s.Out, "\n"), report.Write(s.Out))
	}
	if err == nil && report.Count(leak.Leak)+report.Count(leak.Wrong) > 0 {
		err = fmt.Errorf("do not serve visitors with %s before the findings above are mended", c.File)
	}
	return err
}

// to returns a transport that sends all requests to an address.
func to(address string) http.RoundTripper {
	return &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
}

var (
	listenLine  = regexp.MustCompile(`(?m)^  - address: 127\.0\.0\.1:8080$`)
	servingLine = regexp.MustCompile(`serving http://(127\.0\.0\.1:[0-9]+)`)
)

// trial starts a server with a configuration, on a free port and with a store in a folder. stop ends it.
func trial(ctx context.Context, folder, text string) (address string, stop func(), err error) {
	file := filepath.Join(folder, "isr.yaml")
	if !strings.Contains(text, "\nhosts:") {
		text += "\nhosts: [\"127.0.0.1:8080\"]\n"
	}
	text = listenLine.ReplaceAllString(text, "  - address: 127.0.0.1:0") + fmt.Sprintf("\nadmin: {address: none}\nstore: {data: %q}\n", filepath.Join(folder, "data"))
	if err := writeText(file, text, os.O_CREATE|os.O_EXCL|os.O_WRONLY); err != nil {
		return "", nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	log := &startLog{serving: make(chan string, 1)}
	server := exec.CommandContext(ctx, program, "serve", "--config", file)
	server.Stderr = log
	server.Cancel = func() error { return server.Process.Signal(os.Interrupt) }
	server.WaitDelay = time.Minute
	server.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "ISR_") }) // the file alone counts
	if err := server.Start(); err != nil {
		cancel()
		return "", nil, fmt.Errorf("starting a server for the test: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Wait() // its log tells why it ended
	}()
	stop = func() {
		cancel()
		<-ended
	}
	select {
	case address = <-log.serving:
		return address, stop, nil
	case <-ended:
	case <-ctx.Done():
	}
	stop()
	return "", nil, fmt.Errorf("a server with the new file did not start: %s", log.text())
}

// A startLog is the log of a server, of which the first 64 KiB are kept. It sends the address of the line that it
// serves.
type startLog struct {
	serving chan string

	mu   sync.Mutex
	kept bytes.Buffer
	sent bool
}

func (l *startLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept.Len() < 64<<10 {
		l.kept.Write(p)
	}
	if match := servingLine.FindSubmatch(l.kept.Bytes()); match != nil && !l.sent {
		l.sent = true
		l.serving <- string(match[1])
	}
	return len(p), nil
}

func (l *startLog) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(l.kept.String())
}
