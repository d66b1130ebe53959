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
	return append(serverOnly(), "access-log", "health", "metrics", "grace", "require-store")
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
	file, err := c.prepare(givenFlags(k))
	if err != nil {
		return err
	}
	switch {
	case c.Table == "":
		return cli.Usagef("isr lambda needs --table and --bucket (ISR_TABLE and ISR_BUCKET): functions have no disk that lasts")
	case len(file.Hosts) == 0:
		return cli.Usagef("isr lambda needs --host (ISR_HOST), or hosts in the configuration file: the hosts by which visitors reach it")
	case os.Getenv(runtimeVariable) == "":
		return cli.Usagef("isr lambda runs in AWS Lambda, which sets %s; use isr serve here", runtimeVariable)
	}
	secrets, err := draftSecrets(file)
	if err != nil {
		return err
	}
	log := c.Logger(s)
	if c.RegenerateQueue == "" {
		log.Warn("without --regenerate-queue, stale pages are regenerated before the invocations of their visitors end")
	}
	c.freezes = true
	inst := c.quietInstruments(log)
	back, err := c.openBackend(ctx, k, file, inst, nil, nil, log)
	if err != nil {
		return err
	}
	defer back.close(log)
	site, err := inst.site(back.cache, file, nil, log)
	if err != nil {
		return err
	}
	defer site.Close()
	requests := function.New(c.edge(file, withDrafts(secrets, site, site), inst, log), function.Config{Stream: c.Stream, Settle: back.cache.Settle, Logger: log})
	handler, _ := regenerations(back.cache, file, log)
	messages := trigger.Regenerations(handler, log)
	log.Info("serving invocations", "origin", originText(file), "store", back.st.Where, "queue", c.RegenerateQueue)
	lambda.StartWithOptions(func(ctx context.Context, payload json.RawMessage) (any, error) {
		e, isQueue := function.IsQueue(payload)
		if !isQueue {
			return requests.Invoke(ctx, payload)
		}
		failures := messages(ctx, e)
		if err := back.cache.Settle(ctx); err != nil {
			return nil, fmt.Errorf("waiting for what the messages have begun: %w", err)
		}
		return failures, nil
	}, lambda.WithContext(ctx))
	return nil
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
func (c *LambdaCommand) edge(f *config.File, next http.Handler, inst *instruments, log *slog.Logger) http.Handler {
	all := config.Listener{ForwardedHost: true}
	for _, l := range f.Listen {
		all.TrustedProxies = append(all.TrustedProxies, l.TrustedProxies...)
		all.ForwardedHost = all.ForwardedHost && (l.ForwardedHost || len(l.TrustedProxies) == 0)
	}
	slices.Sort(all.TrustedProxies)
	all.TrustedProxies = slices.Compact(all.TrustedProxies)
	trust, _ := trustOf(all) // validated
	return gateway.Edge(gateway.EdgeConfig{Hosts: hostsOf(f), Trust: trust, Observe: inst.observe(), Logger: log}, next)
}
