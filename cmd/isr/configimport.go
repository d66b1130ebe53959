package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/nginx"
)

type configImportCommand struct {
	From string `arg:"" placeholder:"NGINX.CONF" help:"Main configuration file of nginx, such as /etc/nginx/nginx.conf."`
	File string `env:"-" type:"path" default:"isr.yaml" placeholder:"FILE" help:"File to write (isr.yaml)."`
}

func (c *configImportCommand) Help() string {
	return `Translates the caching of nginx (proxy_cache, fastcgi_cache, uwsgi_cache, scgi_cache) into a configuration file for isr
between nginx and the site. Files that the configuration includes are read too, relative to its folder.

  isr config import /etc/nginx/nginx.conf
  isr serve --config isr.yaml

Each setting has a comment with the directive that it comes from. Directives without a counterpart are listed with what
to do about them. What nginx does not cache is off in the new file. docs/nginx.md has the steps of the move.`
}

func (c *configImportCommand) Run(s *cli.Streams) error {
	if err := refuseExisting(c.File); err != nil {
		return err
	}
	directives, err := nginx.Read(c.From)
	if err != nil {
		return err
	}
	result, err := nginx.Translate(directives, c.From, time.Now())
	if err != nil {
		return err
	}
	text, err := validConfig(result.Text)
	if err != nil {
		return fmt.Errorf("%s cannot be translated as it is: %w", c.From, err)
	}
	schema, err := writeConfig(c.File, text)
	if err != nil {
		return err
	}
	return write(s.Out, importedText(c, result, schema))
}

// importedText tells what was written, and what was not.
func importedText(c *configImportCommand, result *nginx.Result, schema string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Wrote %s, with %s, and %s.\n", c.File, cli.Counted(result.Routes, "route"), schema)
	if len(result.Notes) > 0 {
		fmt.Fprintf(&b, "\nWithout a counterpart, or different (%d):\n", len(result.Notes))
	}
	for _, n := range result.Notes {
		fmt.Fprintf(&b, "\n  %s: %s\n    %s.\n", n.At, n.Directive, n.Text)
	}
	fmt.Fprintf(&b, "\nStart it, and let nginx pass the requests of these locations to it:\n\n  isr serve --config %s\n  docs/nginx.md\n", c.File)
	return b.String()
}
