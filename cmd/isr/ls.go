package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/internal/units"
)

type lsCommand struct {
	Sort   string `enum:"key,age,size,none" default:"key" env:"-" placeholder:"ORDER" help:"Order: key, age (oldest first), size (largest first), or none, which shows pages as they arrive (${default})."`
	Limit  int    `default:"0" env:"-" placeholder:"N" help:"Show at most N pages (${default}: all)."`
	Prefix string `env:"-" placeholder:"TEXT" help:"Show pages whose key begins with TEXT, like example.com/news."`
	Tag    string `env:"-" placeholder:"TAG" help:"Show pages with this purge tag."`
	JSON   bool   `name:"json" help:"Write JSON, one page per line."`

	askFlags `embed:""`
}

func (c *lsCommand) Help() string {
	return `Reads the whole store, even for a part of the list. A long list is sorted in a temporary file below TMPDIR, which
takes about a kilobyte per page; --sort none needs no file, and shows pages as they arrive.`
}

func (c *lsCommand) Run(ctx context.Context, s *cli.Streams) error {
	if c.Limit < 0 {
		return cli.Usagef("--limit must be a number of pages, or 0 for all (got %d)", c.Limit)
	}
	return c.ask(ctx, func(client *admin.Client) error {
		pages := c.pages(client.Pages(ctx))
		if c.JSON {
			return writeLines(s, pages)
		}
		return c.writeTable(s, pages)
	})
}

// pages yields the pages to show, in order. Pages that arrived before an error are yielded
// before it.
func (c *lsCommand) pages(all iter.Seq2[admin.Page, error]) iter.Seq2[admin.Page, error] {
	selected := func(yield func(admin.Page, error) bool) {
		prefix := keyPrefix(c.Prefix)
		for p, err := range all {
			shown := strings.HasPrefix(p.Key, prefix) && (c.Tag == "" || slices.Contains(p.Tags, c.Tag))
			if (err != nil || shown) && !yield(p, err) {
				return
			}
		}
	}
	if c.Sort == "none" {
		return limited(selected, c.Limit)
	}
	return func(yield func(admin.Page, error) bool) { c.sorted(selected, yield) }
}

// sorted yields pages in the order of --sort.
func (c *lsCommand) sorted(pages iter.Seq2[admin.Page, error], yield func(admin.Page, error) bool) {
	s := &sorter{compare: c.compare, limit: c.Limit, folders: []string{"", c.Data}}
	defer func() { _ = s.close() }() // the file has no name
	var broken error
	for p, err := range pages {
		if err == nil {
			err = s.add(p)
		}
		if err != nil {
			broken = err
			break
		}
	}
	for p, err := range s.each {
		if !yield(p, err) || err != nil {
			return
		}
	}
	if broken != nil {
		yield(admin.Page{}, broken)
	}
}

func (c *lsCommand) compare(a, b *admin.Page) int {
	switch c.Sort {
	case "age":
		return cmp.Or(cmp.Compare(b.AgeSeconds, a.AgeSeconds), cmp.Compare(a.Key, b.Key))
	case "size":
		return cmp.Or(cmp.Compare(b.BodyBytes, a.BodyBytes), cmp.Compare(a.Key, b.Key))
	}
	return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Partition, b.Partition))
}

// limited yields at most limit pages; 0 means all.
func limited(pages iter.Seq2[admin.Page, error], limit int) iter.Seq2[admin.Page, error] {
	if limit == 0 {
		return pages
	}
	return func(yield func(admin.Page, error) bool) {
		n := 0
		for p, err := range pages {
			if n++; !yield(p, err) || n == limit {
				return
			}
		}
	}
}

// keyPrefix returns the key prefix of a --prefix, which may be the prefix of a URL.
func keyPrefix(prefix string) string {
	for _, scheme := range []string{"http://", "https://"} {
		if rest, ok := strings.CutPrefix(prefix, scheme); ok {
			return rest
		}
	}
	return prefix
}

func writeLines(s *cli.Streams, pages iter.Seq2[admin.Page, error]) error {
	out := json.NewEncoder(s.Out)
	for p, err := range pages {
		if err != nil {
			return err
		}
		if err := out.Encode(p); err != nil {
			return err
		}
	}
	return nil
}

// listBlock is the number of pages whose columns are aligned together. Only one block is in
// memory.
const listBlock = 1000

// writeTable also writes the pages that were listed before an error.
func (c *lsCommand) writeTable(s *cli.Streams, list iter.Seq2[admin.Page, error]) error {
	t := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	pages := 0
	for p, err := range list {
		if err != nil {
			return errors.Join(err, t.Flush())
		}
		if pages == 0 {
			fmt.Fprintln(t, "STATE\tAGE\tLEFT\tSTATUS\tSIZE\tLEASE\tKEY")
		}
		pages++
		writeRow(t, p)
		if pages%listBlock == 0 {
			if err := t.Flush(); err != nil {
				return err
			}
		}
	}
	switch {
	case pages > 0:
	case c.Tag != "":
		fmt.Fprintf(s.Err, "no stored page has the tag %q; isr get shows the tags of a page\n", c.Tag)
	case c.Prefix != "":
		fmt.Fprintf(s.Err, "no stored page has a key that begins with %q\n", c.Prefix)
	default:
		fmt.Fprintln(s.Err, "no pages are stored yet: a page is stored at its first request")
	}
	return t.Flush()
}

func writeRow(t *tabwriter.Writer, p admin.Page) {
	left := p.FreshFor
	if left <= 0 {
		left = p.StaleFor
	}
	key := p.Key
	switch {
	case p.Malformed != "":
		key = p.Partition + " (" + p.Malformed + ")"
	case key == "":
		key = p.Partition
	}
	fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", p.State, cli.Seconds(p.AgeSeconds), cli.Seconds(max(left, 0)),
		p.Status, units.Bytes(p.BodyBytes), pageLease(p), key)
}
