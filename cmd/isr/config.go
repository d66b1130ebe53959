package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/cmd/isr/server"
	"github.com/facetheory/isr/internal/config"
	"github.com/facetheory/isr/internal/survey"
)

type configCommand struct {
	Check   configCheckCommand          `cmd:"" help:"Check a configuration file: all errors, with their places."`
	Explain server.ConfigExplainCommand `cmd:"" help:"Show which rules of a configuration file apply to a request, and where they come from."`
	Schema  configSchemaCommand         `cmd:"" help:"Print the JSON Schema of configuration files, for editors."`
	Preset  configPresetCommand         `cmd:"" help:"Print a preset, or the names of all."`
	Init    configInitCommand           `cmd:"" help:"Write a configuration file to begin with, and its schema."`
	Import  configImportCommand         `cmd:"" help:"Write a configuration file for what an nginx configuration caches."`
}

type configCheckCommand struct {
	File  string `arg:"" default:"isr.yaml" placeholder:"FILE" help:"Configuration file (${default})."`
	Files bool   `default:"true" negatable:"" env:"-" help:"Read the files that it names: certificates, keys and secrets; on by default. --no-files checks a file on another machine than the server's."`
}

func (c *configCheckCommand) Help() string {
	return `Variables of the environment must be set, and files readable, as for the server. Relative paths are relative to the
working directory.`
}

func (c *configCheckCommand) Run(s *cli.Streams) error {
	check := config.Parse
	if c.Files {
		check = config.Check
	}
	f, err := server.ReadConfigBy(c.File, check)
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

const schemaFile = "isr.schema.json"

func (c *configInitCommand) Help() string {
	return `Writes a configuration file without looking at the site. isr init URL looks at the site, and writes a better one.`
}

func (c *configInitCommand) Run(s *cli.Streams) error {
	origin, err := url.Parse(c.Origin)
	if err != nil {
		return cli.Usagef("--origin: %v", err)
	}
	text, err := configOf(&survey.Site{Origin: origin, Framework: survey.Framework{Name: c.Preset, Preset: c.Preset}}, time.Now())
	if err != nil {
		return cli.Usagef("%v", err)
	}
	schema, err := writeConfig(c.File, text)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Out, "Wrote %s and %s.\n", c.File, schema)
	return err
}

// refuseExisting returns an error if a configuration file that is to be written exists.
func refuseExisting(file string) error {
	if _, err := os.Lstat(file); err == nil {
		return cli.Usagef("%s exists; give another file with --file", file)
	}
	return nil
}

// validConfig returns the text of a new configuration file, with the schema named for editors, if it is valid.
func validConfig(text string) (string, error) {
	text = "# yaml-language-server: $schema=" + schemaFile + "\n" + text
	_, err := config.Parse("the new file", []byte(text), os.LookupEnv)
	return text, err
}

// writeConfig writes a configuration file, which must not exist, and beside it the schema.
func writeConfig(file, text string) (schema string, err error) {
	schema = filepath.Join(filepath.Dir(file), schemaFile)
	if err := writeText(file, text, os.O_CREATE|os.O_EXCL|os.O_WRONLY); err != nil {
		return "", err
	}
	return schema, writeText(schema, string(config.Schema()), os.O_CREATE|os.O_TRUNC|os.O_WRONLY)
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
