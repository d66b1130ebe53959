package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// shellCompletes are how shells print what they suggest for a line, the last argument, by the
// script in the argument before it: a word per line.
var shellCompletes = map[string][]string{
	"bash": {"bash", "-c", `source "$1"; read -ra COMP_WORDS <<<"${2//=/ = }"; [[ $2 != *[\ =] ]] || COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _isr; printf '%s\n' "${COMPREPLY[@]}"`, "bash"},
	"fish": {"fish", "--no-config", "-c", `source $argv[1]; complete -C $argv[2] | string replace -r '\t.*' ''; true`},
	"zsh":  {"zsh", "-f", "testdata/completion/capture.zsh"},
}

// TestCompletion completes command lines in real shells.
func TestCompletion(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"site.yaml", "site.json"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct{ line, want string }{
		{"isr ser", "serve"},
		{"isr config ", "check explain schema preset init import"},
		{"isr serve --pres", "--preset"},
		{"isr serve --preset ", "astro django laravel next nuxt rails react-router sveltekit wordpress"},
		{"isr serve --preset=n", "next nuxt"},
		{"isr serve --no-f", "--no-fast-path"},
		{"isr serve --listen config --pres", "--preset"}, // config is not the command
		{"isr completion z", "zsh"},
		{"isr serve --config " + dir + "/si", "site.json site.yaml"},
		{"isr serve --listen ", ""},
	}
	for shell, command := range shellCompletes {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(shell); err != nil {
				t.Skipf("completions are not tested in %s, which is missing; install %s", shell, shell)
			}
			script := filepath.Join(t.TempDir(), "_isr")
			if err := os.WriteFile(script, []byte(run0(t, "completion", shell)), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, tt := range tests {
				cmd := exec.CommandContext(t.Context(), command[0], append(slices.Clone(command[1:]), script, tt.line)...)
				cmd.Dir, _ = os.Getwd()
				var problems bytes.Buffer
				cmd.Stderr = &problems
				out, err := cmd.Output()
				if err != nil || problems.Len() > 0 {
					t.Fatalf("%q: %v\n%s", tt.line, err, &problems)
				}
				got, want := suggestions(string(out), shell, tt.line), strings.Fields(tt.want)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Errorf("%q: %q, want %q", tt.line, got, want)
				}
			}
		})
	}
}

// suggestions returns the words of a shell, sorted. Shells have different parts of a word:
// fish all of it, bash the value of --flag=value, zsh the last part of a path.
func suggestions(out, shell, line string) []string {
	words := strings.Fields(out)
	for i, word := range words {
		if shell == "fish" && strings.Contains(line, "=") {
			_, word, _ = strings.Cut(word, "=")
		}
		if strings.Contains(word, "/") {
			word = filepath.Base(word)
		}
		words[i] = word
	}
	slices.Sort(words)
	return words
}

// run0 executes a command that succeeds, and returns its output.
func run0(t *testing.T, args ...string) string {
	t.Helper()
	var out, problems bytes.Buffer
	if code := run(args, &out, &problems); code != 0 {
		t.Fatalf("isr %s: exit code %d\n%s", strings.Join(args, " "), code, &problems)
	}
	return out.String()
}

// TestManualPages: mandoc and man accept each page.
func TestManualPages(t *testing.T) {
	dir := t.TempDir()
	run0(t, "man", dir)
	pages, err := filepath.Glob(filepath.Join(dir, "isr*.1"))
	if err != nil || len(pages) < 30 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for page, wants := range map[string][]string{
		"isr.1":              {"isr serve \\-\\-demo", ".B serve", "isr\\-serve (1)"},
		"isr-serve.1":        {"\\fB\\-\\-listen\\fR=\\fIADDR\\fR", "Environment: ISR_LISTEN.", "\\-\\-[no\\-]fast\\-path"},
		"isr-config-check.1": {"isr\\-config (1)"},
	} {
		text, err := os.ReadFile(filepath.Join(dir, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s lacks %q", page, want)
			}
		}
	}
	if _, err := exec.LookPath("mandoc"); err != nil {
		t.Skip("manual pages are not checked by mandoc, which is missing; install mandoc")
	}
	// A build from a checkout of a worktree has no date.
	out, err := exec.CommandContext(t.Context(), "mandoc", append([]string{"-T", "lint", "-W", "warning"}, pages...)...).Output()
	for line := range strings.Lines(string(out)) {
		if !strings.Contains(line, "missing date") {
			t.Error(line)
		}
	}
	if len(out) == 0 && err != nil {
		t.Error(err)
	}
}
