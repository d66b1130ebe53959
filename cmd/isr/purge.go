package main

import (
	"context"
	"encoding/json"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/admin"
)

type purgeCommand struct {
	Pages       []string `arg:"" optional:"" name:"url" help:"URL of a page, or its key as isr ls shows it. - reads targets from standard input, one per line: URL, tag:TAG, prefix:TEXT or host:NAME."`
	Tag         []string `env:"-" sep:"none" placeholder:"TAG" help:"Pages with this tag; repeatable."`
	Prefix      []string `env:"-" sep:"none" placeholder:"TEXT" help:"Pages whose URL begins with TEXT, like example.com/blog/, or /blog/ if the site has one host; repeatable."`
	Host        []string `env:"-" sep:"none" placeholder:"NAME" help:"All pages of a host; repeatable."`
	All         bool     `env:"-" help:"All pages."`
	Tenant      string   `env:"-" placeholder:"NAME" help:"Tenant of the pages, on a site with tenants."`
	AllOfTenant bool     `env:"-" help:"All pages of --tenant."`

	Soft    bool `env:"-" help:"The pages are stale: served while they are regenerated (the default)."`
	Hard    bool `env:"-" help:"The pages are never served again; the next request waits for a new page."`
	Refresh bool `env:"-" help:"Regenerate the stored pages now, one after another; visitors get each old page until its new one is stored."`

	DryRun bool `env:"-" help:"Show how many stored pages would be purged, with examples. Reads the whole store."`
	Wait   bool `env:"-" help:"Wait until every live server has applied the purge, at most 10s."`
	Unpin  bool `env:"-" help:"Purge (--hard) or regenerate (--refresh) pinned pages too, and unpin them."`
	JSON   bool `name:"json" help:"Write JSON, one line for each transaction or page."`

	askFlags `embed:""`
}

func (c *purgeCommand) Help() string {
	return `A purge is one write, whatever the number of pages: the targets of one command are purged together, or
not at all. Every server follows within its --poll. More than 90 targets (45 URLs) are split into several
writes.

  isr purge https://example.com/news        one page
  isr purge --tag product-7 --wait          all pages with a tag, and wait for all servers
  isr purge --prefix example.com/blog/      all pages below a path
  isr purge --all                           everything, for example after a deployment
  isr purge - <urls.txt                     many pages`
}

func (c *purgeCommand) Run(ctx context.Context, s *cli.Streams) error {
	if err := c.validate(); err != nil {
		return err
	}
	return c.ask(ctx, func(client *admin.Client) error {
		if c.Refresh {
			return c.refresh(ctx, s, client)
		}
		return c.purge(ctx, s, client)
	})
}

func (c *purgeCommand) validate() error {
	modes := 0
	for _, mode := range []bool{c.Soft, c.Hard, c.Refresh} {
		if mode {
			modes++
		}
	}
	selected := len(c.Pages) + len(c.Tag) + len(c.Prefix) + len(c.Host)
	switch {
	case modes > 1:
		return cli.Usagef("--soft, --hard and --refresh exclude each other; give one of them")
	case c.All && (selected > 0 || c.Tenant != "" || c.AllOfTenant):
		return cli.Usagef("--all is everything; give it without other targets and without --tenant (--all-of-tenant is all pages of a tenant)")
	case c.AllOfTenant && c.Tenant == "":
		return cli.Usagef("--all-of-tenant needs --tenant NAME")
	case c.AllOfTenant && selected > 0:
		return cli.Usagef("--all-of-tenant is all pages of the tenant; give it without other targets")
	case selected == 0 && !c.All && !c.AllOfTenant:
		return cli.Usagef("nothing to purge; give URLs, --tag, --prefix or --host, - to read them from standard input, or --all for everything")
	case c.Unpin && !c.Hard && !c.Refresh:
		return cli.Usagef("--unpin needs --hard or --refresh; a soft purge covers pinned pages too, and their pins end when they are regenerated")
	case c.Wait && (c.Refresh || c.DryRun):
		return cli.Usagef("--wait waits for a purge; give it without --refresh and --dry-run")
	}
	return nil
}

// purge purges the targets, in several calls if they are more than one purge can have.
func (c *purgeCommand) purge(ctx context.Context, s *cli.Streams, client *admin.Client) error {
	done := new(purgeDone)
	for batch, err := range batches(c.targets(s.In)) {
		var out admin.Purged
		switch {
		case err != nil:
		case c.DryRun && batch.more:
			return errOneBatch("--dry-run")
		default:
			out, err = client.Purge(ctx, c.request(batch.targets, batch.last))
		}
		if err == nil {
			done.add(out)
			writeWarnings(s, out.Warnings)
			writeNotStored(s, out.NotStored)
			if c.JSON {
				err = json.NewEncoder(s.Out).Encode(out)
			}
		}
		if err != nil {
			return done.failed(err, batch.line)
		}
	}
	switch {
	case done.calls == 0:
		return errNoInput()
	case c.JSON:
		return done.missing()
	}
	return done.write(s, c.DryRun)
}

// request returns the request of a batch. A tenant is the target of --all-of-tenant. A server
// that has applied the last batch has applied all, so only that one is waited for.
func (c *purgeCommand) request(targets []admin.PurgeTarget, last bool) admin.Purge {
	in := admin.Purge{Targets: targets, Tenant: c.Tenant, Mode: admin.PurgeSoft, Wait: c.Wait && last, Unpin: c.Unpin, DryRun: c.DryRun}
	if c.Hard {
		in.Mode = admin.PurgeHard
	}
	return in
}
