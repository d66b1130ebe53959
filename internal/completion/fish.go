package completion

import (
	"fmt"
	"strings"
)

// fish returns a script that needs fish 3.0 or newer.
func fish(program string, all []command) string {
	var paths, valued, rules strings.Builder
	for _, c := range all {
		for _, sub := range c.subcommands {
			fmt.Fprintf(&paths, " %s", fishQuoted(sub.path))
			fmt.Fprintf(&rules, "complete -c %s -n %s -a %s -d %s\n", program, fishQuoted(fishAt(program, c)), sub.name, fishQuoted(sub.help))
		}
		for _, f := range c.flags {
			if f.value.kind != none {
				for _, name := range f.names {
					fmt.Fprintf(&valued, " %s", fishQuoted(c.path+" "+name))
				}
			}
			rules.WriteString(fishFlag(program, c, f))
		}
		if c.argument.kind == choice || c.argument.kind == path {
			fmt.Fprintf(&rules, "complete -c %s -n %s%s\n", program, fishQuoted(fishAt(program, c)), fishValue(c.argument))
		}
	}
	return strings.NewReplacer("PROGRAM", program, "PATHS", paths.String(), "VALUED", valued.String(), "RULES", rules.String()).Replace(fishScript)
}

// fishAt returns the condition that a command is the one on the command line.
func fishAt(program string, c command) string {
	return fmt.Sprintf("__%s_at %s", program, fishQuoted(c.path))
}

// fishFlag returns the rules of a flag.
func fishFlag(program string, c command, f flag) string {
	var b strings.Builder
	for _, name := range f.names {
		option := "-l " + strings.TrimPrefix(name, "--")
		if !strings.HasPrefix(name, "--") {
			option = "-s " + strings.TrimPrefix(name, "-")
		}
		fmt.Fprintf(&b, "complete -c %s -n %s %s", program, fishQuoted(fishAt(program, c)), option)
		if f.value.kind != none {
			b.WriteString(" -r" + fishValue(f.value))
		}
		fmt.Fprintf(&b, " -d %s\n", fishQuoted(f.help))
	}
	return b.String()
}

// fishValue returns the options of complete for a value.
func fishValue(v value) string {
	switch v.kind {
	case choice:
		return " -f -a " + fishQuoted(strings.Join(v.words, " "))
	case path:
		return " -F"
	}
	return " -f"
}

func fishQuoted(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
}

const fishScript = `# fish completion for PROGRAM, made by: PROGRAM completion fish

# Succeeds if $argv[1] is the command on the command line.
function __PROGRAM_at
    set -l commands PATHS
    set -l valued VALUED
    set -l at PROGRAM
    set -l skip no
    for word in (commandline -opc)[2..-1]
        if test $skip = yes
            set skip no
        else if string match -q -- '-*' $word
            contains -- "$at $word" $valued; and set skip yes
        else if contains -- "$at $word" $commands
            set at "$at $word"
        end
    end
    test $at = $argv[1]
end

complete -c PROGRAM -f
RULES`
