// Package manpage writes manual pages from the model of a command line: a page for the program
// and one for each of its commands, in the macros of man(7).
package manpage

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// A Set is what all pages of a program have in common.
type Set struct {
	// Version is the version of the program, like 0.1.0.
	Version string
	// Date is the date of the pages; the zero time leaves it out.
	Date time.Time
}

// section is the section for commands of users.
const section = "1"

// Pages returns the text of each page by its file name: isr.1, isr-serve.1. Hidden commands
// and flags have none.
func (s Set) Pages(app *kong.Application) map[string]string {
	pages := make(map[string]string)
	s.add(pages, app.Node, app.Name)
	return pages
}

// add adds the page of a command, whose words are separated by spaces, and those below it.
func (s Set) add(pages map[string]string, n *kong.Node, at string) {
	name := pageName(at)
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s %s %s %s %s\n", quoted(strings.ToUpper(name)), section, quoted(s.date()), quoted("isr "+s.Version), quoted("isr manual"))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", text(name), text(short(n)))
	synopsis(&b, n, at)
	b.WriteString(".SH DESCRIPTION\n")
	prose(&b, strings.TrimSpace(n.Help+"\n\n"+n.Detail))
	children := visible(n)
	if len(children) > 0 {
		b.WriteString(".SH COMMANDS\n")
	}
	for _, child := range children {
		fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", text(child.Name), text(child.Help))
		s.add(pages, child, at+" "+child.Name)
	}
	arguments(&b, n)
	options(&b, n)
	b.WriteString(".SH EXIT STATUS\n0 for success, 1 for a failure, 2 for a usage error.\n")
	seeAlso(&b, n, at)
	pages[name+"."+section] = b.String()
}

func (s Set) date() string {
	if s.Date.IsZero() {
		return ""
	}
	return s.Date.UTC().Format(time.DateOnly)
}

// short returns the line of a command in lists: its help, of which only the first sentence.
func short(n *kong.Node) string {
	line, _, _ := strings.Cut(n.Help, "\n")
	line, _, _ = strings.Cut(line, ". ")
	return strings.TrimSuffix(line, ".")
}

func synopsis(b *strings.Builder, n *kong.Node, at string) {
	fmt.Fprintf(b, ".SH SYNOPSIS\n.B %s\n", text(at))
	if len(n.Children) > 0 {
		b.WriteString(".I command\n")
	}
	b.WriteString("[\\fIflags\\fR]\n")
	for _, p := range n.Positional {
		fmt.Fprintf(b, "%s\n", text(p.Summary()))
	}
}

func arguments(b *strings.Builder, n *kong.Node) {
	for i, p := range n.Positional {
		if i == 0 {
			b.WriteString(".SH ARGUMENTS\n")
		}
		fmt.Fprintf(b, ".TP\n.I %s\n%s\n", text(p.Name), text(p.Help))
	}
}

func options(b *strings.Builder, n *kong.Node) {
	b.WriteString(".SH OPTIONS\n")
	for _, group := range n.AllFlags(true) {
		for _, f := range group {
			b.WriteString(".TP\n")
			if f.Short != 0 {
				fmt.Fprintf(b, "\\fB\\-%c\\fR, ", f.Short)
			}
			fmt.Fprintf(b, "\\fB%s\\fR", text("--"+negatable(f)+f.Name))
			if !f.IsBool() && !f.IsCounter() {
				fmt.Fprintf(b, "=\\fI%s\\fR", text(f.FormatPlaceHolder()))
			}
			fmt.Fprintf(b, "\n%s\n", text(f.Help))
			if len(f.Envs) > 0 {
				fmt.Fprintf(b, "Environment: %s.\n", text(strings.Join(f.Envs, ", ")))
			}
		}
	}
}

// negatable returns "[no-]" for a switch that can be turned off.
func negatable(f *kong.Flag) string {
	if f.Tag.Negatable == "" {
		return ""
	}
	return "[no-]"
}

func seeAlso(b *strings.Builder, n *kong.Node, at string) {
	others := make(map[string]bool)
	if n.Parent != nil {
		words := strings.Fields(at)
		others[pageName(strings.Join(words[:len(words)-1], " "))] = true
		others[words[0]] = true
	}
	for _, child := range visible(n) {
		others[pageName(at+" "+child.Name)] = true
	}
	var refs []string
	for _, name := range slices.Sorted(maps.Keys(others)) {
		refs = append(refs, fmt.Sprintf(".BR %s (%s)", text(name), section))
	}
	if len(refs) > 0 {
		fmt.Fprintf(b, ".SH SEE ALSO\n%s\n", strings.Join(refs, " ,\n"))
	}
}

func visible(n *kong.Node) []*kong.Node {
	return slices.DeleteFunc(slices.Clone(n.Children), func(child *kong.Node) bool { return child.Hidden })
}

func pageName(at string) string { return strings.ReplaceAll(at, " ", "-") }

// prose writes help in the form of kong's: paragraphs, and lines that begin with a space,
// which stay as they are.
func prose(b *strings.Builder, help string) {
	literal, paragraph := false, false
	for line := range strings.Lines(help) {
		line = strings.TrimRight(line, "\n")
		verbatim := strings.HasPrefix(line, " ") || literal && line == ""
		switch {
		case verbatim && !literal:
			b.WriteString(".PP\n.nf\n")
		case !verbatim && literal:
			b.WriteString(".fi\n")
			paragraph = true
		}
		literal = verbatim
		switch {
		case literal:
			fmt.Fprintf(b, "%s\n", text(line))
		case line == "":
			paragraph = true
		default:
			if paragraph {
				b.WriteString(".PP\n")
			}
			paragraph = false
			fmt.Fprintf(b, "%s\n", text(line))
		}
	}
	if literal {
		b.WriteString(".fi\n")
	}
}

// text escapes what roff would interpret: backslashes, hyphens, which it may replace, and a
// control character at the beginning of a line.
func text(line string) string {
	line = strings.NewReplacer(`\`, `\e`, "-", `\-`, "^", `\(ha`, "~", `\(ti`, "`", `\(ga`).Replace(line)
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		line = `\&` + line
	}
	return line
}

// quoted returns an argument of a macro.
func quoted(argument string) string {
	return `"` + strings.ReplaceAll(text(argument), `"`, `\(dq`) + `"`
}
