package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/config"
)

// documentation returns the texts of the pages of the documentation by their paths.
func documentation(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{"../../docs/*.md", "../../README.md", "../../CONTRIBUTING.md", "../../clients/*/README.md", "../../e2e/sites/*/README.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			texts[strings.TrimPrefix(path, "../../")] = string(text)
		}
	}
	if len(texts) < 40 {
		t.Fatalf("found %d pages", len(texts))
	}
	return texts
}

// fence matches a block of code: its indentation, its language and its text.
var fence = regexp.MustCompile("(?ms)^( *)```([a-z]*)[^\n]*\n(.*?)^ *```")

// blocks returns the blocks of code of a page in some languages.
func blocks(text string, languages ...string) (all []string) {
	for _, match := range fence.FindAllStringSubmatch(text, -1) {
		if slices.Contains(languages, match[2]) {
			all = append(all, strings.ReplaceAll("\n"+match[3], "\n"+match[1], "\n")[1:])
		}
	}
	return all
}

// commandLines returns the lines of a block that a shell executes: if some have a prompt, the others are output.
func commandLines(block string) (all []string) {
	prompts := regexp.MustCompile(`(?m)^ *\$ `).MatchString(block)
	for line := range strings.Lines(strings.ReplaceAll(block, "\\\n", "")) {
		line, prompt := strings.CutPrefix(strings.TrimSpace(line), "$ ")
		if prompt || !prompts {
			all = append(all, line)
		}
	}
	return all
}

// TestPagesCommands: every command line of a page has an isr command and flags that exist, and a line of a block is
// accepted as it is, unless it is abridged.
func TestPagesCommands(t *testing.T) {
	parser, err := newParser(t.Context(), &cli.Streams{Out: io.Discard, Err: io.Discard}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	flags, variables := allFlags(parser.Model.Node)
	inline := regexp.MustCompile("`isr (.+?)`")
	found := 0
	for page, text := range documentation(t) {
		for _, block := range blocks(text, "", "sh", "console") {
			for _, line := range commandLines(block) {
				args, whole := commandOf(line)
				if args == nil {
					continue
				}
				found++
				checkNames(t, page, parser.Model.Node, args)
				if _, err := parser.Parse(args); err != nil && whole {
					t.Errorf("%s: isr %q: %s", page, args, parseError(err))
				}
			}
		}
		prose := fence.ReplaceAllString(text, "")
		for _, match := range inline.FindAllStringSubmatch(strings.ReplaceAll(prose, "\n", " "), -1) {
			args, _ := commandOf("isr " + match[1])
			found++
			checkNames(t, page, parser.Model.Node, args)
		}
		for _, match := range regexp.MustCompile("`(--[a-z][a-z0-9-]*)").FindAllStringSubmatch(prose, -1) {
			if !flags[match[1]] && !slices.Contains(foreignFlags, match[1]) {
				t.Errorf("%s: no command has the flag %s", page, match[1])
			}
		}
		for _, name := range regexp.MustCompile(`\bISR_[A-Z0-9_]+\b`).FindAllString(text, -1) {
			if !variables[name] && !otherVariable.MatchString(name) {
				t.Errorf("%s: nothing reads the variable %s", page, name)
			}
		}
	}
	if found < 200 {
		t.Errorf("found %d command lines", found)
	}
}

// foreignFlags are flags of other programs that pages name.
var foreignFlags = []string{"--enable-feature", "--endpoint-url", "--experimental-vm-modules", "--output", "--preload", "--stop-timeout", "--volume"}

// otherVariable matches variables that are not flags: secrets, variables of the clients and of examples, constants of the WordPress plugin.
var otherVariable = regexp.MustCompile(`^ISR_(ADMIN_TOKEN|ADMIN_READ_TOKEN|PEER_SECRET|DOWNSTREAM_([A-Z0-9_]+_TOKEN)?|HOOK_([A-Z0-9_]+_SECRET)?|` +
	`ADMIN_URL|BINARY|SECRET|KEY_ID|URL|DRAFT_SECRET|TEST_[A-Z0-9_]+)$`)

// commandOf returns the arguments of isr in a line of a shell, nil if it does not run isr, and whether none of them is
// abridged.
func commandOf(line string) (args []string, whole bool) {
	words, whole := shellWords(line)
	for len(words) > 0 && (words[0] == "sudo" || regexp.MustCompile(`^[A-Z_]+=`).MatchString(words[0])) {
		words = words[1:]
	}
	if len(words) < 2 || words[0] != "isr" || words[1] == "--version" {
		return nil, false
	}
	return words[1:], whole
}

// shellWords returns the words of the first command of a line, without quotes, and whether none is an ellipsis.
func shellWords(line string) (words []string, whole bool) {
	whole = true
	word := regexp.MustCompile(`^(?:[^\s'"|<>;&#()]|'[^']*'|"[^"]*"|\$\([^)]*\)|#\S)+`)
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimLeft(line, " \t") {
		next := word.FindString(line)
		if next == "" {
			return words, whole
		}
		line = line[len(next):]
		if next == "…" || next == "..." {
			whole = false
			continue
		}
		words = append(words, regexp.MustCompile(`['"]`).ReplaceAllString(next, ""))
	}
	return words, whole
}

// checkNames reports names of commands and flags that do not exist.
func checkNames(t *testing.T, page string, node *kong.Node, args []string) {
	t.Helper()
	for _, arg := range args {
		if flag, isFlag := strings.CutPrefix(arg, "--"); isFlag {
			name, _, _ := strings.Cut(flag, "=")
			if !hasFlag(node, name) {
				t.Errorf("%s: %q: isr %s has no flag --%s", page, args, node.Path(), name)
			}
			continue
		}
		for _, child := range node.Children {
			if child.Name == arg {
				node = child
				break
			}
		}
		if node.Type == kong.ApplicationNode && !strings.HasPrefix(arg, "-") {
			t.Errorf("%s: %q: there is no such command", page, args)
			return
		}
	}
}

func hasFlag(node *kong.Node, name string) bool {
	for ; node != nil; node = node.Parent {
		for _, flag := range node.Flags {
			if flag.Name == name || flag.Tag.Negatable != "" && "no-"+flag.Name == name || slices.Contains(flag.Aliases, name) {
				return true
			}
		}
	}
	return false
}

// allFlags returns the names of the flags of all commands, and of their variables.
func allFlags(node *kong.Node) (flags, variables map[string]bool) {
	flags, variables = map[string]bool{}, map[string]bool{}
	_ = kong.Visit(node, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok {
			flags["--"+flag.Name] = true
			if flag.Tag.Negatable != "" {
				flags["--no-"+flag.Name] = true
			}
			for _, name := range flag.Envs {
				variables[name] = true
			}
		}
		return next(nil)
	})
	return flags, variables
}

// TestPagesConfigurations: every block of YAML with fields of isr.yaml is a valid configuration, or a part of one.
func TestPagesConfigurations(t *testing.T) {
	var schema struct{ Properties map[string]any }
	if err := json.Unmarshal(config.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	field := regexp.MustCompile(`(?m)^([a-z_]+):`)
	found := 0
	for page, text := range documentation(t) {
		for _, block := range blocks(text, "yaml") {
			fields := field.FindAllStringSubmatch(block, -1)
			if len(fields) == 0 || slices.ContainsFunc(fields, func(f []string) bool { _, known := schema.Properties[f[1]]; return !known }) {
				if strings.Contains(block, "isr.yaml") || len(fields) == 0 {
					t.Errorf("%s: fields of this block are not of isr.yaml:\n%s", page, block)
				}
				continue
			}
			found++
			if !strings.Contains(block, "origins:") {
				block += "origins: {site: {url: http://127.0.0.1:3000}}\n"
			}
			if _, err := config.Parse(page, []byte(block), func(string) (string, bool) { return "0123456789abcdef0123456789abcdef", true }); err != nil {
				t.Errorf("%v in\n%s", err, block)
			}
		}
	}
	if found < 15 {
		t.Errorf("found %d configurations", found)
	}
}
