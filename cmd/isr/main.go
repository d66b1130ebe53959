// Command isr is the ISR cache in one binary: a gateway in front of a site, and
// the commands that inspect and change its store. Each command has a file of its name.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/cmd/isr/server"
)

// commands is the grammar of the command line.
type commands struct {
	Init        initCommand          `cmd:"" help:"Look at a site, write a configuration file for it, and test it."`
	Assess      assessCommand        `cmd:"" help:"Forecast from an access log what the cache would gain."`
	Serve       server.ServeCommand  `cmd:"" help:"Serve a site through the cache."`
	Worker      server.WorkerCommand `cmd:"" help:"Regenerate the pages that servers send to a queue."`
	Lambda      server.LambdaCommand `cmd:"" help:"Serve a site through the cache as an AWS Lambda function."`
	Reload      reloadCommand        `cmd:"" help:"Make a server read its configuration file again."`
	Maintenance maintenanceCommand   `cmd:"" help:"Begin or end maintenance mode: stored pages, and one page for the rest."`
	Get         getCommand           `cmd:"" help:"Show the stored copy of a page."`
	Explain     explainCommand       `cmd:"" help:"Explain what the cache would do with a request, and why."`
	Top         topCommand           `cmd:"" help:"Show what a server does, live: hit ratio, requests, renders, slow and failing pages."`
	Log         logCommand           `cmd:"" help:"Follow the requests of a running server, live, by conditions such as status>=500."`
	Ls          lsCommand            `cmd:"" help:"List the stored pages."`
	Regenerate  regenerateCommand    `cmd:"" help:"Regenerate a page now."`
	Warm        warmCommand          `cmd:"" help:"Regenerate many pages: of a sitemap, a file, or a tag."`
	Versions    versionsCommand      `cmd:"" help:"List the kept generations of a page."`
	Diff        diffCommand          `cmd:"" help:"Compare two generations of a page."`
	Rollback    rollbackCommand      `cmd:"" help:"Make an older generation of a page current again, and pin it."`
	Pin         pinCommand           `cmd:"" help:"Keep the current generation of a page, without regeneration."`
	Unpin       unpinCommand         `cmd:"" help:"Unpin a page, so that it is regenerated again."`
	Purge       purgeCommand         `cmd:"" help:"Make pages stale on all servers, or remove them: by URL, tag, prefix, host, or all."`
	Doctor      doctorCommand        `cmd:"" help:"Examine the installation: origins, stores, limits, proxies, fleet, and with --url the site for leaks."`
	Draft       server.DraftCommand  `cmd:"" help:"Print a link with which an editor sees unpublished content."`
	Lease       leaseCommand         `cmd:"" help:"Show or break the lease of a page."`
	Notices     noticesCommand       `cmd:"" help:"Test the destinations that are told of problems."`
	Outbox      outboxCommand        `cmd:"" help:"List, retry or drop purges that have not reached downstream caches."`
	Quarantine  quarantineCommand    `cmd:"" help:"List, compare, accept or drop rejected generations of pages."`
	Gc          gcCommand            `cmd:"" help:"Delete stored bodies that no row refers to."`
	Backup      backupCommand        `cmd:"" help:"Copy a data folder as of one moment, while it is used."`
	Restore     restoreCommand       `cmd:"" help:"Restore a backup to a new data folder."`
	Check       checkCommand         `cmd:"" help:"Verify all that a data folder or a backup contains."`
	Compact     compactCommand       `cmd:"" help:"Shrink the file of a table to the space that it uses."`
	Usage       usageCommand         `cmd:"" help:"Show the DynamoDB capacity that a server has consumed, and its cost."`
	Cost        costCommand          `cmd:"" help:"Forecast what a site costs on AWS."`
	Table       tableCommand         `cmd:"" help:"Manage the DynamoDB table."`
	Config      configCommand        `cmd:"" help:"Check and explain configuration files."`
	Dynamodb    dynamodbCommand      `cmd:"" help:"Serve the embedded store as a DynamoDB endpoint, without a site."`
	Healthcheck healthcheckCommand   `cmd:"" help:"Ask the server on this machine whether it is ready: exit code 0 or 1."`
	Completion  completionCommand    `cmd:"" help:"Print the completion script of a shell."`
	Man         manCommand           `cmd:"" hidden:"" help:"Write the manual pages."`
	Version     cli.VersionCommand   `cmd:"" help:"Print the version."`
	Help        helpCommand          `cmd:"" help:"Show the help of isr or of a command."`
}

const description = `isr is a cache in front of a web site: it stores rendered pages, and renders each one once per expiry.

  isr serve --demo                           a demonstration site, on http://127.0.0.1:8080
  isr serve --origin http://127.0.0.1:3000   your own site

Every flag can also be given as an environment variable: --listen as ISR_LISTEN.`

func main() {
	os.Exit(run(server.AsFunction(os.Args[0], os.Args[1:]), os.Stdout, os.Stderr))
}

// run is the program. It returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	switch {
	case len(args) == 0:
		args = []string{"--help"}
	case args[0] == "--version":
		args = []string{"version"}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	return execute(ctx, args, &cli.Streams{In: os.Stdin, Out: stdout, Err: stderr})
}

// execute executes a command until ctx is done. It returns the exit code: 0 for success, 1
// for a failure, 2 for a usage error.
func execute(ctx context.Context, args []string, out *cli.Streams) int {
	exit := -1 // set when kong has handled the command line itself, such as --help
	parser, err := newParser(ctx, out, func(code int) { exit = code })
	if err != nil {
		fmt.Fprintf(out.Err, "isr: %v\n", err)
		return 2
	}
	parsed, err := parser.Parse(args)
	if exit >= 0 {
		return exit
	}
	if err != nil {
		fmt.Fprintf(out.Err, "isr: %s\n", parseError(err))
		return 2
	}
	err = parsed.Run(parser)
	var usage *cli.UsageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		fmt.Fprintf(out.Err, "isr: %v\n", err)
		return 2
	}
	text := err.Error()
	if !out.Debug {
		text = server.WithoutRequestIDs(text)
	}
	fmt.Fprintf(out.Err, "isr: %s\n", text)
	return 1
}

// newParser returns the parser of the command line. It calls exit when it has handled a command line itself.
func newParser(ctx context.Context, out *cli.Streams, exit func(int)) (*kong.Kong, error) {
	var grammar commands
	parser, err := kong.New(&grammar,
		kong.Name("isr"),
		kong.Description(description),
		kong.DefaultEnvars("ISR"),
		kong.Writers(out.Out, out.Err),
		kong.Exit(exit),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		grammar.Usage.prices(),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(out),
	)
	if err != nil {
		return nil, err
	}
	server.HideFlags(parser.Model, "worker", server.VisitorsOnly())
	server.HideFlags(parser.Model, "lambda", server.NotFrozen())
	return parser, nil
}

// parseError describes an error of the command line, and how to correct it.
func parseError(err error) string {
	text := err.Error()
	var parse *kong.ParseError
	if missing, ok := strings.CutPrefix(text, "expected \""); ok && errors.As(err, &parse) {
		if node := parse.Context.Selected(); node != nil {
			return fmt.Sprintf("missing %s; usage: isr %s", strings.Trim(missing, "\""), node.Summary())
		}
	}
	if argument, unexpected := strings.CutPrefix(text, "unexpected argument "); unexpected && errors.As(err, &parse) && parse.Context.Selected() == nil {
		text = fmt.Sprintf("unknown command %q", argument)
	}
	text = strings.ReplaceAll(text, "(from envar ", "(from ")
	text = strings.ReplaceAll(text, `must be one of "",`, "must be ")
	text = regexp.MustCompile(`: expected an? (?:float|int) but got ("[^"]*") \(string\)`).ReplaceAllString(text, " must be a number (got $1)")
	return text + otherName(text) + " (see: isr help)"
}

// otherName suggests our flag for a flag that other programs have.
func otherName(text string) string {
	for meant, names := range map[string][]string{
		"--listen": {"--addr", "--address", "--bind", "--port", "--host-port"},
		"--origin": {"--upstream", "--backend", "--target", "--url"},
		"--data":   {"--dir", "--data-dir", "--folder"},
	} {
		for _, name := range names {
			if strings.HasPrefix(text, "unknown flag "+name) && !strings.Contains(text, "did you mean") {
				return ", did you mean " + meant + "?"
			}
		}
	}
	return ""
}
