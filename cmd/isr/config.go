package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/cmd/isr/server"
	"github.com/facetheory/isr/internal/config"
)

type configCommand struct {
	Check   configCheckCommand          `cmd:"" help:"Check a configuration file: all errors, with their places."`
	Explain server.ConfigExplainCommand `cmd:"" help:"Show which rules of a configuration file apply to a request, and where they come from."`
	Schema  configSchemaCommand         `cmd:"" help:"Print the JSON Schema of configuration files, for editors."`
	Preset  configPresetCommand         `cmd:"" help:"Print a preset, or the names of all."`
	Init    configInitCommand           `cmd:"" help:"Write a configuration file to begin with, and its schema."`
}

type configCheckCommand struct {
	File string `arg:"" default:"isr.yaml" placeholder:"FILE" help:"Configuration file (${default})."`
}

func (c *configCheckCommand) Help() string {
	return `Variables of the environment must be set as for the server. Files with secrets and certificates are not read.`
}

func (c *configCheckCommand) Run(s *cli.Streams) error {
	f, err := server.ReadConfig(c.File)
	var wrong *config.Errors
	if errors.As(err, &wrong) {
		n := len(wrong.List) + wrong.More
		return fmt.Errorf("%s has %s:\n\n%w", c.File, cli.Counted(n, "error"), err)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Out, "%s is valid: %s, %s, %s.\n", c.File,
		cli.Counted(len(f.Listen), "listener"), cli.Counted(len(f.Origins), "origin"), cli.Counted(len(f.Routes), "route"))
	return err
}

type configSchemaCommand struct{}

func (c *configSchemaCommand) Help() string {
	return `Editors with a YAML language server use it if the first line of a configuration file names it:

  isr config schema >isr.schema.json

  # yaml-language-server: $schema=isr.schema.json`
}

func (c *configSchemaCommand) Run(s *cli.Streams) error {
	_, err := s.Out.Write(config.Schema())
	return err
}

type configPresetCommand struct {
	Name string `arg:"" optional:"" help:"Name of the preset."`
}

func (c *configPresetCommand) Run(s *cli.Streams) error {
	text := strings.Join(config.Presets(), "\n") + "\n"
	if c.Name != "" {
		var ok bool
		if text, ok = config.PresetText(c.Name); !ok {
			return cli.Usagef("unknown preset %q; expected one of %s", c.Name, strings.Join(config.Presets(), ", "))
		}
	}
	_, err := io.WriteString(s.Out, text)
	return err
}

type configInitCommand struct {
	File   string `arg:"" default:"isr.yaml" placeholder:"FILE" help:"File to write (${default})."`
	Origin string `env:"-" default:"http://127.0.0.1:3000" placeholder:"URL" help:"URL of the site (${default})."`
	Preset string `env:"-" placeholder:"NAME" help:"Framework of the site."`
}

const (
	schemaFile = "isr.schema.json"
	firstFile  = `# yaml-language-server: $schema=` + schemaFile + `
# Check it with: isr config check
# All fields: docs/configuration.md
%s
listen:
  - address: 127.0.0.1:8080

origins:
  site:
    url: %q

# Settings of all routes that do not set them themselves.
defaults:
  stale: 1d # how long an expired page may be served while it is regenerated

routes:
  - match: /
    revalidate: 60s # for pages whose responses say nothing about caching
`
)

func (c *configInitCommand) Run(s *cli.Streams) error {
	preset := ""
	if c.Preset != "" {
		preset = "preset: " + c.Preset + "\n"
	}
	text := fmt.Sprintf(firstFile, preset, c.Origin)
	if _, err := config.Parse(c.File, []byte(text), os.LookupEnv); err != nil {
		return cli.Usagef("%v", err)
	}
	schema := filepath.Join(filepath.Dir(c.File), schemaFile)
	for _, out := range []struct {
		path, text string
		flags      int
	}{
		{c.File, text, os.O_CREATE | os.O_EXCL | os.O_WRONLY},
		{schema, string(config.Schema()), os.O_CREATE | os.O_TRUNC | os.O_WRONLY},
	} {
		if err := writeText(out.path, out.text, out.flags); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(s.Out, "Wrote %s and %s.\n", c.File, schema)
	return err
}

func writeText(path, text string, flags int) error {
	file, err := os.OpenFile(path, flags, 0o644)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists; give another file", path)
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(file, text)
	return errors.Join(err, file.Close())
}
