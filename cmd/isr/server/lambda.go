package server

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"

	"github.com/alecthomas/kong"
	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/gateway/function"
	"github.com/facetheory/isr/internal/config"
	"github.com/facetheory/isr/internal/telemetry"
	"github.com/facetheory/isr/internal/telemetry/live"
	"github.com/facetheory/isr/internal/telemetry/metrics"
	trigger "github.com/facetheory/isr/trigger/lambda"
)

// LambdaCommand is isr lambda: it serves a site as an AWS Lambda function.
type LambdaCommand struct {
	ServeCommand `embed:""`

	Stream bool `help:"Stream the responses of function URLs, whose invoke mode must then be RESPONSE_STREAM: up to 200MB instead of 6MB, as they come."`
}

// Help returns the text below the usage line.
func (c *LambdaCommand) Help() string {
	return `Runs in AWS Lambda, on the runtime provided.al2023, behind a function URL, API Gateway or an Application
Load Balancer, and executes the messages of a queue of regenerations. It is what the binary does under the
name bootstrap. Give its settings as ISR_* variables. See docs/lambda.md.`
}

// NotFrozen are the flags of isr serve that a function does not have: nothing runs in it between
// two invocations, and nothing listens.
func NotFrozen() []string {
	return append(serverOnly(), "access-log", "health", "metrics", "grace", "require-store", "watch")
}

// runtimeVariable has the address of the runtime API of Lambda.
const runtimeVariable = "AWS_LAMBDA_RUNTIME_API"

// AsFunction returns the arguments of a program that Lambda has started: it gives none, and expects
// the name bootstrap.
func AsFunction(program string, args []string) []string {
	if len(args) == 0 && filepath.Base(program) == "bootstrap" && os.Getenv(runtimeVariable) != "" {
		return []string{"lambda"}
	}
	return args
}

// Run executes the command. Invalid flags are a [cli.UsageError].
func (c *LambdaCommand) Run(ctx context.Context, s *cli.Streams, k *kong.Context) error {
	if err := refuseFlags(k, "lambda", NotFrozen()); err != nil {
		return err
	}
	f := &invoked{LambdaCommand: c, streams: s, kong: k}
	if err := f.configure(); err != nil {
		return err
	}
	return f.run(ctx)
}

// An invoked is a running isr lambda.
type invoked struct {
	*LambdaCommand
	streams *cli.Streams
	kong    *kong.Context

	// configure sets these.
	file         *config.File
	draftSecrets []string
	errorPages   gateway.ErrorPages
	log          *slog.Logger

	// The parts set these when they start.
	inst     *instruments
	back     *backend
	site     *gateway.Site
	requests *function.Handler
	messages func(context.Context, events.SQSEvent) events.SQSEventResponse
}

// parts lists the parts of a function in the order in which they start. They end in the reverse order; nothing is
// drained, since each invocation finishes what it began.
func (f *invoked) parts() []part {
	return []part{
		{start: f.startBackend},
		{start: f.startSite},
		{start: f.startInvocations},
	}
}

// run starts the parts, and answers invocations until Lambda ends the process.
func (f *invoked) run(ctx context.Context) error {
	end, err := startParts(ctx, f.parts())
	defer end()
	if err != nil {
		return err
	}
	lambda.StartWithOptions(f.invoke, lambda.WithContext(ctx))
	return nil
}

// configure reads and validates the configuration. It starts nothing.
func (f *invoked) configure() (err error) {
	if f.file, err = f.prepare(givenFlags(f.kong)); err != nil {
		return err
	}
	switch {
	case f.Table == "":
		return cli.Usagef("isr lambda needs --table and --bucket (ISR_TABLE and ISR_BUCKET): functions have no disk that lasts")
	case len(f.file.Hosts) == 0:
		return cli.Usagef("isr lambda needs --host (ISR_HOST), or hosts in the configuration file: the hosts by which visitors reach it")
	case os.Getenv(runtimeVariable) == "":
		return cli.Usagef("isr lambda runs in AWS Lambda, which sets %s; use isr serve here", runtimeVariable)
	}
	if f.draftSecrets, err = draftSecrets(f.file); err != nil {
		return err
	}
	if f.errorPages, err = errorPages(f.file); err != nil {
		return err
	}
	f.log = f.Logger(f.streams)
	if f.RegenerateQueue == "" {
		f.log.Warn("without --regenerate-queue, stale pages are regenerated before the invocations of their visitors end")
	}
	f.freezes = true
	return nil
}

func (f *invoked) startBackend(ctx context.Context) (end func(), err error) {
	f.inst = f.quietInstruments(f.log)
	if f.back, err = f.openBackend(ctx, f.file, f.inst, nil, nil, f.log); err != nil {
		return nil, err
	}
	return func() { f.back.close(f.log) }, nil
}

func (f *invoked) startSite(context.Context) (end func(), err error) {
	if f.site, err = f.inst.site(f.back.cache, f.file, nil, f.log); err != nil {
		return nil, err
	}
	return f.site.Close, nil
}

// startInvocations puts the site behind the edge, and the regenerations of the queue beside it.
func (f *invoked) startInvocations(context.Context) (end func(), err error) {
	f.requests = function.New(f.edge(f.file, f.errorPages, withDrafts(f.draftSecrets, f.site, f.site), f.inst, f.log), function.Config{Stream: f.Stream, Settle: f.back.cache.Settle, Logger: f.log})
	handler, _ := regenerations(f.back.cache, f.file, f.log)
	f.messages = trigger.Regenerations(handler, f.log)
	f.log.Info("serving invocations", "origin", originText(f.file), "store", f.back.st.Where, "queue", f.RegenerateQueue)
	return nil, nil
}

// invoke answers an invocation: a request of a visitor, or messages of the queue.
func (f *invoked) invoke(ctx context.Context, payload json.RawMessage) (any, error) {
	e, isQueue := function.IsQueue(payload)
	if !isQueue {
		return f.requests.Invoke(ctx, payload)
	}
	failures := f.messages(ctx, e)
	if err := f.back.cache.Settle(ctx); err != nil {
		return nil, fmt.Errorf("waiting for what the messages have begun: %w", err)
	}
	return failures, nil
}

// quietInstruments returns instruments that export nothing: what they would send in the background
// would be lost.
func (c *ServeCommand) quietInstruments(log *slog.Logger) *instruments {
	i := &instruments{metrics: metrics.New(cli.Version(), log), live: live.New(), requestIDs: telemetry.RequestIDs(c.RequestID)}
	i.recorder = telemetry.NewRecorder(telemetry.RecorderConfig{RequestIDs: i.requestIDs})
	return i
}

// edge returns the edge of a function, before next. Its peers are those that AWS states, of which
// those are trusted that any listener of the file trusts. The host that they forward is trusted if
// each listener with trusted proxies trusts it.
func (c *LambdaCommand) edge(f *config.File, pages gateway.ErrorPages, next http.Handler, inst *instruments, log *slog.Logger) http.Handler {
	all := config.Listener{ForwardedHost: true}
	for _, l := range f.Listen {
		all.TrustedProxies = append(all.TrustedProxies, l.TrustedProxies...)
		all.ForwardedHost = all.ForwardedHost && (l.ForwardedHost || len(l.TrustedProxies) == 0)
	}
	slices.Sort(all.TrustedProxies)
	all.TrustedProxies = slices.Compact(all.TrustedProxies)
	trust, _ := trustOf(all) // validated
	return gateway.Edge(gateway.EdgeConfig{Hosts: hostsOf(f), Trust: trust, ErrorPages: pages, Observe: inst.observe(), Logger: log}, next)
}
