package completion

import (
	"fmt"
	"strings"
)

// zsh returns a script for a folder of fpath, under the name _PROGRAM, and for eval after
// compinit.
func zsh(program string, all []command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "#compdef %[1]s\n# zsh completion for %[1]s, made by: %[1]s completion zsh\n", program)
	for _, c := range all {
		fmt.Fprintf(&b, "\n%s() {\n", zshName(c.path))
		if len(c.subcommands) > 0 {
			zshParent(&b, c)
		} else {
			fmt.Fprintf(&b, "  _arguments -s%s\n", zshSpecs(c))
		}
		b.WriteString("}\n")
	}
	fmt.Fprintf(&b, "\nif [ \"$funcstack[1]\" = _%[1]s ]; then\n  _%[1]s \"$@\"\nelse\n  compdef _%[1]s %[1]s\nfi\n", program)
	return b.String()
}

// zshParent writes the body of the function of a command that has commands.
func zshParent(b *strings.Builder, c command) {
	b.WriteString("  local curcontext=$curcontext state line ret=1\n  local -a commands\n  commands=(\n")
	for _, sub := range c.subcommands {
		fmt.Fprintf(b, "    %s\n", quoted(sub.name+":"+sub.help))
	}
	fmt.Fprintf(b, "  )\n  _arguments -C%s '1: :->command' '*:: :->rest' && ret=0\n  case $state in\n", zshSpecs(c))
	b.WriteString("  command) _describe -t commands command commands && ret=0 ;;\n  rest)\n    case $line[1] in\n")
	for _, sub := range c.subcommands {
		fmt.Fprintf(b, "    %s) %s && ret=0 ;;\n", sub.name, zshName(sub.path))
	}
	b.WriteString("    esac\n    ;;\n  esac\n  return ret\n")
}

// zshSpecs returns the flags and the argument of a command as arguments of _arguments.
func zshSpecs(c command) string {
	var b strings.Builder
	for _, f := range c.flags {
		for _, name := range f.names {
			spec := name
			if f.value.kind != none && strings.HasPrefix(name, "--") {
				spec += "=" // --flag=value, or --flag value
			}
			spec = "*" + spec + "[" + zshText(f.help) + "]"
			if f.value.kind != none {
				spec += ":" + strings.TrimLeft(name, "-") + ":" + zshValue(f.value)
			}
			fmt.Fprintf(&b, " \\\n    %s", quoted(spec))
		}
	}
	if c.argument.kind != none {
		fmt.Fprintf(&b, " \\\n    %s", quoted("*: :"+zshValue(c.argument)))
	}
	return b.String()
}

func zshValue(v value) string {
	switch v.kind {
	case choice:
		return "(" + strings.Join(v.words, " ") + ")"
	case path:
		return "_files"
	}
	return " "
}

// zshText returns a text within the brackets of a specification.
func zshText(text string) string {
	return strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, ":", `\:`).Replace(text)
}

func zshName(path string) string { return "_" + strings.NewReplacer(" ", "_", "-", "_").Replace(path) }
