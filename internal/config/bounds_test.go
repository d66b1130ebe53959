package config_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/facetheory/isr/internal/config"
)

// Files of any content are refused or parsed, within the time that tests have.
func TestBounds(t *testing.T) {
	const size = 1<<20 - 100
	fill := func(text string) string { return strings.Repeat(text, size/len(text)) }
	lines := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()[:size]
	}
	var nested strings.Builder
	for i := 0; nested.Len() < size; i++ {
		fmt.Fprintf(&nested, "%s- a:\n", strings.Repeat(" ", i))
	}
	var aliases strings.Builder
	aliases.WriteString("origins: {a: {url: \"http://a\"}}\nroutes:\n  - {match: /first, ignore_query: &q [")
	for i := range 250 {
		fmt.Fprintf(&aliases, "q%d, ", i)
	}
	aliases.WriteString("last]}\n")
	for i := range 999 {
		fmt.Fprintf(&aliases, "  - {match: /r%d, ignore_query: *q}\n", i)
	}
	for name, c := range map[string]struct{ text, want string }{
		"too large":        {strings.Repeat("# comment\n", 120_000), "at most 1MiB are allowed"},
		"flow lists":       {"a: " + fill("["), "more than 24 deep"},
		"flow maps":        {"a: " + fill("{a: "), "more than 24 deep"},
		"lists in a line":  {fill("- "), "more than 24 deep"},
		"maps in a line":   {fill("? "), ""},
		"tags":             {fill("!!a "), ""},
		"anchors":          {fill("&a "), ""},
		"indentation":      {nested.String(), ""},
		"comments":         {fill("# a\n"), "the file is empty"},
		"fields":           {lines("field%d: value\n"), "more errors"},
		"one field":        {fill("a: 1\n"), "given twice"},
		"a long text":      {"build: " + fill("a"), "at most 8192 are allowed"},
		"a quoted text":    {"build: \"" + fill("\\n") + "\"", "at most 8192 are allowed"},
		"a block":          {"build: |\n" + fill("  a\n"), "at most 8192 are allowed"},
		"routes":           {"routes:\n" + strings.Repeat("  - match: /a\n", 1001), "at most 1000 are allowed"},
		"aliased lists":    {aliases.String(), "more than 200000 values"},
		"variables":        {"build: " + strings.Repeat("${BIG}", 1000), "bytes with the value of BIG"},
		"aliases of alias": {lines("a%[1]d: &a%[1]d [*a%[1]d, *a%[1]d]\n"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := config.Parse("isr.yaml", []byte(c.text), func(string) (string, bool) { return strings.Repeat("x", 1000), true })
			var all *config.Errors
			if !errors.As(err, &all) || len(all.List) > 50 || len(err.Error()) > 200_000 || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %.500v; want %q", err, c.want)
			}
		})
	}
}

// An error about a value does not contain what a variable of the environment has.
func TestErrorsWithoutVariables(t *testing.T) {
	for _, field := range []string{
		"memory", "poll", "blind", "hosts", "log: {level", "listen: [{address", "store: {table: t, bucket: b, region",
		"downstream: {a: {to", "triggers: {queue: {url: \"http://localhost/q\", targets", "purge: {method", "defaults: {negative: {404",
		"defaults: {origin", "defaults: {query", "defaults: {headers", "defaults: {set_headers: {X-A", "routes: [{match",
	} {
		text := "origins: {a: {url: \"http://a\"}}\n" + field + ": \"${TOKEN}\"" + strings.Repeat("}", strings.Count(field, "{"))
		text += strings.Repeat("]", strings.Count(field, "["))
		_, err := config.Parse("isr.yaml", []byte(text), func(string) (string, bool) { return "hunter2 {/secret\n", true })
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", field, err)
		}
	}
}
