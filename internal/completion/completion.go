// Package completion writes scripts by which shells complete a command line: commands, flags,
// and the values of flags that are one of a list or a path. A script has the whole grammar,
// so completing starts no process.
package completion

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Shells returns the names of the shells that [Write] knows.
func Shells() []string { return slices.Sorted(maps.Keys(shells())) }

func shells() map[string]func(program string, all []command) string {
	return map[string]func(string, []command) string{"bash": bash, "fish": fish, "zsh": zsh}
}

// Write writes the script of a shell for a program. An unknown shell is an error.
func Write(w io.Writer, app *kong.Application, shell string) error {
	script, ok := shells()[shell]
	if !ok {
		return fmt.Errorf("unknown shell %q; expected one of %s", shell, strings.Join(Shells(), ", "))
	}
	_, err := io.WriteString(w, script(app.Name, commandsOf(app.Node, app.Name)))
	return err
}

// A command is the program, or a command of it.
type command struct {
	path        string // the words that lead to it: "isr config check"
	name        string // the last of them
	help        string
	subcommands []command
	flags       []flag
	argument    value // of all its arguments
}

// A flag is one flag of a command.
type flag struct {
	names []string // with their dashes
	help  string
	value value
}

// A value is what follows a flag or is an argument.
type value struct {
	kind  kind
	words []string // of a choice
}

type kind int

const (
	none   kind = iota // a switch; no arguments
	text               // nothing is suggested
	choice             // one of words
	path               // a file or a folder
)

// commandsOf returns a node and all commands below it that are not hidden, parents first.
func commandsOf(n *kong.Node, at string) []command {
	c := command{path: at, name: n.Name, help: summary(n.Help), flags: flagsOf(n)}
	for _, p := range n.Positional {
		c.argument = valueOf(p)
	}
	var below []command
	for _, child := range n.Children {
		if child.Hidden {
			continue
		}
		all := commandsOf(child, at+" "+child.Name)
		c.subcommands = append(c.subcommands, all[0])
		below = append(below, all...)
	}
	return append([]command{c}, below...)
}

// flagsOf returns the flags of a node and of those above it, which all accept.
func flagsOf(n *kong.Node) (flags []flag) {
	for _, group := range n.AllFlags(true) {
		for _, f := range group {
			one := flag{names: []string{"--" + f.Name}, help: summary(f.Help), value: valueOf(f.Value)}
			if f.Short != 0 {
				one.names = append(one.names, "-"+string(f.Short))
			}
			if f.Tag.Negatable != "" && one.value.kind == none {
				one.names = append(one.names, negation(f))
			}
			flags = append(flags, one)
		}
	}
	return flags
}

// negation returns the flag that turns a switch off.
func negation(f *kong.Flag) string {
	if f.Tag.Negatable == "_" { // kong's mark of a name that it makes
		return "--no-" + f.Name
	}
	return "--" + f.Tag.Negatable
}

func valueOf(v *kong.Value) value {
	switch {
	case v.Flag != nil && (v.IsBool() || v.IsCounter()):
		return value{kind: none}
	case v.Enum != "":
		words := slices.DeleteFunc(v.EnumSlice(), func(word string) bool { return word == "" })
		return value{kind: choice, words: words}
	case v.Tag.Type == "path" || v.Tag.Type == "existingfile" || v.Tag.Type == "existingdir":
		return value{kind: path}
	}
	return value{kind: text}
}

// summary returns the first sentence of a help text, without what follows in brackets.
func summary(help string) string {
	for _, end := range []string{". ", "; ", ": ", " ("} {
		help, _, _ = strings.Cut(help, end)
	}
	return strings.TrimSuffix(strings.TrimSpace(help), ".")
}

// quoted returns a text as one word of a POSIX shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
