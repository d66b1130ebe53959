package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/store"
)

// maxTargetLine bounds a line of standard input, in bytes: the longest key, with room for
// characters that its URL encodes and the key does not.
const maxTargetLine = 3 * store.MaxKeyLength

// A lineTarget is a target and the line of standard input that named it; 0 for the command
// line.
type lineTarget struct {
	admin.PurgeTarget
	line int
}

// targets yields the targets of the command line and, at -, the targets of standard input.
func (c *purgeCommand) targets(in io.Reader) iter.Seq2[lineTarget, error] {
	return func(yield func(lineTarget, error) bool) {
		given := func(t admin.PurgeTarget) bool {
			if err := validate(t, c.Tenant); err != nil {
				yield(lineTarget{}, cli.Usagef("%v", err))
				return false
			}
			return yield(lineTarget{PurgeTarget: t}, nil)
		}
		for _, page := range c.Pages {
			if page == "-" {
				for t, err := range lineTargets(in, c.Tenant) {
					if !yield(t, err) || err != nil {
						return
					}
				}
				continue
			}
			if !given(admin.PurgeTarget{URL: page}) {
				return
			}
		}
		for _, t := range c.selected() {
			if !given(t) {
				return
			}
		}
	}
}

// selected returns the targets of the flags.
func (c *purgeCommand) selected() []admin.PurgeTarget {
	var all []admin.PurgeTarget
	for _, tag := range c.Tag {
		all = append(all, admin.PurgeTarget{Tag: tag})
	}
	for _, prefix := range c.Prefix {
		all = append(all, admin.PurgeTarget{Prefix: prefix})
	}
	for _, host := range c.Host {
		all = append(all, admin.PurgeTarget{Host: host})
	}
	if c.AllOfTenant {
		all = append(all, admin.PurgeTarget{Tenant: c.Tenant})
	}
	if c.All {
		all = append(all, admin.PurgeTarget{All: true})
	}
	return all
}

// lineTargets yields the targets of lines: URLs, and tag:, prefix: and host: with a value.
// Empty lines are skipped. It ends after the first error.
func lineTargets(in io.Reader, tenant string) iter.Seq2[lineTarget, error] {
	return func(yield func(lineTarget, error) bool) {
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, maxTargetLine)
		number := 0
		for lines.Scan() {
			number++
			text := lines.Text()
			if number == 1 {
				text = strings.TrimPrefix(text, "\ufeff") // the byte order mark of some editors
			}
			if text = strings.TrimSpace(text); text == "" {
				continue
			}
			parsed, err := parseLine(text)
			t := lineTarget{parsed, number}
			if err == nil {
				err = validate(parsed, tenant)
			}
			if err != nil {
				err = fmt.Errorf("line %d of standard input: %w", number, err)
			}
			if !yield(t, err) || err != nil {
				return
			}
		}
		switch err := lines.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			yield(lineTarget{}, fmt.Errorf("line %d of standard input is longer than %d bytes", number+1, maxTargetLine))
		case err != nil:
			yield(lineTarget{}, fmt.Errorf("read standard input: %w", err))
		}
	}
}

func parseLine(text string) (t admin.PurgeTarget, err error) {
	kind, value, _ := strings.Cut(text, ":")
	switch value = strings.TrimSpace(value); {
	case kind == "tenant":
		return t, cli.Usagef("a line cannot name a tenant; give --tenant NAME with its URLs, tags, prefixes and hosts, or --tenant NAME --all-of-tenant")
	case kind == "tag":
		t.Tag = value
	case kind == "prefix":
		t.Prefix = value
	case kind == "host":
		t.Host = value
	default:
		return admin.PurgeTarget{URL: text}, nil
	}
	if value == "" {
		return t, cli.Usagef("%q names no %s; expected %s", text, kind, map[string]string{"tag": "tag:TAG", "prefix": "prefix:TEXT", "host": "host:NAME"}[kind])
	}
	return t, nil
}

// validate checks a target. A prefix without a host is completed by the server, if its site
// has one host.
func validate(t admin.PurgeTarget, tenant string) error {
	if strings.HasPrefix(t.Prefix, "/") {
		t.Prefix = "example.com" + t.Prefix
	}
	return t.Validate(tenant)
}

// A batch is the targets of one call.
type batch struct {
	targets []admin.PurgeTarget
	weight  int
	bytes   int
	line    int  // of the first target
	more    bool // it is not the last one, or not the first
	last    bool
}

// Bounds of a batch, within the bounds of the API.
const (
	maxBatchWeight = store.MaxPurgeTargets
	maxBatchBytes  = 192 << 10
)

// weight is how many targets of the store a target may become: a URL is the target of the page
// and of its variants.
func weight(t admin.PurgeTarget) int {
	if t.URL != "" {
		return 2
	}
	return 1
}

// batches yields targets in batches that one purge can have. After an error of targets it
// yields the error with the line at which the batch that was not complete begins.
func batches(targets iter.Seq2[lineTarget, error]) iter.Seq2[batch, error] {
	return func(yield func(batch, error) bool) {
		var b batch
		for t, err := range targets {
			if err == nil {
				err = t.checkText()
			}
			if err != nil {
				if len(b.targets) == 0 {
					b.line = t.line
				}
				yield(b, err)
				return
			}
			size := len(t.URL) + len(t.Tag) + len(t.Prefix) + len(t.Host)
			if b.weight+weight(t.PurgeTarget) > maxBatchWeight || len(b.targets) > 0 && b.bytes+size > maxBatchBytes {
				b.more = true
				if !yield(b, nil) {
					return
				}
				b = batch{more: true}
			}
			if len(b.targets) == 0 {
				b.line = t.line
			}
			b.targets, b.weight, b.bytes = append(b.targets, t.PurgeTarget), b.weight+weight(t.PurgeTarget), b.bytes+size
		}
		if len(b.targets) > 0 {
			b.last = true
			yield(b, nil)
		}
	}
}

// checkText refuses text that is not UTF-8, which JSON would change into another target.
func (t lineTarget) checkText() error {
	for _, text := range []string{t.URL, t.Tag, t.Prefix, t.Host, t.Tenant} {
		if !utf8.ValidString(text) {
			return cli.Usagef("the target %.80q is not UTF-8", text)
		}
	}
	return nil
}
