package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/alecthomas/kong"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/completion"
	"github.com/facetheory/isr/internal/manpage"
)

type completionCommand struct {
	Shell string `arg:"" enum:"bash,fish,zsh" help:"The shell: bash, fish or zsh."`
}

func (c *completionCommand) Help() string {
	return `The packages and the Homebrew cask install the scripts. Otherwise:

  bash   isr completion bash >~/.local/share/bash-completion/completions/isr
         or, without the package bash-completion, in ~/.bashrc: eval "$(isr completion bash)"
  zsh    in ~/.zshrc, after compinit: eval "$(isr completion zsh)"
  fish   isr completion fish >~/.config/fish/completions/isr.fish`
}

func (c *completionCommand) Run(s *cli.Streams, parser *kong.Kong) error {
	return completion.Write(s.Out, parser.Model, c.Shell)
}

// manCommand is for the makers of packages.
type manCommand struct {
	Output string `arg:"" type:"path" placeholder:"DIR" help:"Folder for the pages, which is made."`
}

func (c *manCommand) Run(s *cli.Streams, parser *kong.Kong) error {
	b := cli.Build()
	pages := manpage.Set{Version: b.Version, Date: b.Time}.Pages(parser.Model)
	err := os.MkdirAll(c.Output, 0o755)
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		err = errors.Join(err, os.WriteFile(filepath.Join(c.Output, name), []byte(pages[name]), 0o644))
	}
	if err != nil {
		return fmt.Errorf("write manual pages: %w", err)
	}
	_, err = fmt.Fprintf(s.Out, "%s in %s\n", cli.Counted(len(pages), "page"), c.Output)
	return err
}
