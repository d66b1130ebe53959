package completion

import (
	"fmt"
	"strings"
)

// bash returns a script that needs bash 3.2 or newer, and not the package bash-completion. Bash
// splits words at "=", so the value of --flag=value is a word of its own.
func bash(program string, all []command) string {
	var nodes, values strings.Builder
	for _, c := range all {
		fmt.Fprintf(&nodes, "    %s)\n      commands=%s\n      switches=%s\n      valued=%s\n", quoted(c.path),
			quoted(strings.Join(names(c.subcommands), " ")), quoted(flagWords(c, none)), quoted(flagWords(c, text, choice, path)))
		if c.argument.kind != none {
			fmt.Fprintf(&nodes, "      argument=%s\n", quoted(bashValue(c.argument)))
		}
		nodes.WriteString("      ;;\n")
		for _, f := range c.flags {
			if f.value.kind == choice || f.value.kind == path {
				fmt.Fprintf(&values, "    %s) value=%s ;;\n", quoted(c.path+" "+f.names[0]), quoted(bashValue(f.value)))
			}
		}
	}
	return strings.NewReplacer("PROGRAM", program, "NODES", nodes.String(), "VALUES", values.String()).Replace(bashScript)
}

// bashValue returns the arguments of compgen for a value; empty for no suggestions.
func bashValue(v value) string {
	switch v.kind {
	case choice:
		return "-W '" + strings.Join(v.words, " ") + "'"
	case path:
		return "-f"
	}
	return ""
}

func names(all []command) (words []string) {
	for _, c := range all {
		words = append(words, c.name)
	}
	return words
}

// flagWords returns the flags of a command whose values are of some kinds, by spaces.
func flagWords(c command, kinds ...kind) string {
	var words []string
	for _, f := range c.flags {
		for _, k := range kinds {
			if f.value.kind == k {
				words = append(words, f.names...)
			}
		}
	}
	return strings.Join(words, " ")
}

const bashScript = `# bash completion for PROGRAM, made by: PROGRAM completion bash

# Sets what is possible at the command $1.
_PROGRAM_command() {
  commands= switches= valued= argument=
  case $1 in
NODES    *) return 1 ;;
  esac
}

# Sets value for the flag $1, which is a command and its flag.
_PROGRAM_value() {
  value=
  case $1 in
VALUES  esac
}

_PROGRAM() {
  local current=${COMP_WORDS[COMP_CWORD]} previous= at=PROGRAM i word
  local commands switches valued argument value
  COMPREPLY=()
  [ "$COMP_CWORD" -eq 0 ] || previous=${COMP_WORDS[COMP_CWORD - 1]}
  if [ "$current" = = ]; then
    current=
  elif [ "$previous" = = ] && [ "$COMP_CWORD" -ge 2 ]; then
    previous=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  _PROGRAM_command "$at"
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    case $word in
    -*) # its value is not a command
      [[ " $valued " != *" $word "* ]] || { [ "${COMP_WORDS[i + 1]}" != = ] || ((i++)); ((i++)); }
      ;;
    *) [[ " $commands " != *" $word "* ]] || { at="$at $word" && _PROGRAM_command "$at"; } ;;
    esac
  done
  if [[ $previous == -* && " $valued " == *" $previous "* ]]; then
    _PROGRAM_value "$at $previous"
  elif [[ $current == -* ]]; then
    value="-W '$switches $valued'"
  elif [ -n "$commands" ]; then
    value="-W '$commands'"
  else
    value=$argument
  fi
  [ "$value" != -f ] || compopt -o filenames 2>/dev/null
  [ -z "$value" ] || while IFS= read -r word; do COMPREPLY+=("$word"); done < <(eval "compgen $value -- \"\$current\"")
}

complete -F _PROGRAM PROGRAM
`
