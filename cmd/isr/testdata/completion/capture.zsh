# capture.zsh SCRIPT LINE prints what zsh suggests for a line, a word per line, after it has
# loaded a completion script. Completion works at a terminal only, so this starts a shell at a
# pseudo terminal, presses Tab, and reads the suggestions between two marks.
zmodload zsh/zpty
zpty shell zsh -f -i

begin() {
  zpty -w shell "source $1 ${(q)2}"
  repeat 9; do
    zpty -r shell line
    [[ $line != ready* ]] || return 0
  done
  print -u 2 "no shell: $line"
  exit 1
}

begin =(cat <<'END'
PROMPT=
autoload -Uz compinit && compinit -u -D
source $1
bindkey "^M" undefined # a completed line is not executed
bindkey "^J" undefined
bindkey "^I" complete-word
mark() { echo -E - $'\0' }
compprefuncs=(mark)
comppostfuncs=(mark exit)
zstyle ':completion:*' insert-tab false
compadd() {
  if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then
    builtin compadd "$@"
    return
  fi
  local -a hits
  builtin compadd -A hits "$@"
  [[ $#hits -eq 0 ]] || print -rl -- $hits
  builtin compadd "$@"
}
echo ready
END
) $1

zpty -w shell "$2"$'\t'
marks=0
while zpty -r shell; do :; done | while IFS= read -r line; do
  if [[ $line == *$'\0\r' ]]; then
    [[ $((++marks)) -lt 2 ]] || exit 0
  elif [[ $marks -eq 1 ]]; then
    print -r -- ${line%$'\r'}
  fi
done
