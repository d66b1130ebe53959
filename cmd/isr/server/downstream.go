package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/cloudfront"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/downstream"
	"github.com/facetheory/isr/internal/config"
	"github.com/facetheory/isr/store"
)

// downstreamFlags configure the caches in front of the servers. Commands that change the
// store without a server may have them too: their change is then delivered without waiting
// for a server that finds it in the log.
type downstreamFlags struct {
	tokens map[string]string // of the configuration file, by the name of a variable

	Downstream []string `sep:"none" placeholder:"NAME=KIND:ADDRESS" help:"Cache in front of the servers that purges, rollbacks and pins are delivered to, like cdn=cloudfront:E123ABC, edge=fastly:SERVICE, cf=cloudflare:ZONE, dc2=isr:https://host or v1=varnish:http://10.0.0.5; repeatable, in ISR_DOWNSTREAM separated by spaces. The token is in ISR_DOWNSTREAM_<NAME>_TOKEN."`
}

// specs parses the flags.
func (f *downstreamFlags) specs() ([]downstream.Spec, error) {
	var all []downstream.Spec
	known := make(map[string]bool)
	for _, text := range strings.Fields(strings.Join(f.Downstream, " ")) {
		s, err := downstream.ParseSpec(text)
		if err != nil {
			return nil, cli.Usagef("--downstream: %v", err)
		}
		if known[s.Name] {
			return nil, cli.Usagef("--downstream: the name %s is used twice", s.Name)
		}
		known[s.Name] = true
		all = append(all, s)
	}
	if len(all) > store.MaxDestinations {
		return nil, cli.Usagef("--downstream is given %d times, at most %d are allowed", len(all), store.MaxDestinations)
	}
	return all, nil
}

// addDownstream adds the caches of a configuration file.
func (f *downstreamFlags) addDownstream(caches map[string]config.Downstream) error {
	f.tokens = make(map[string]string)
	for name, c := range caches {
		text := name + "=" + c.To
		spec, err := downstream.ParseSpec(text)
		if err != nil {
			return err
		}
		f.Downstream = append(f.Downstream, text)
		switch {
		case c.Token.IsZero():
		case c.Token.File() != "":
			f.tokens[spec.Variable()+"_FILE"] = c.Token.File() // read again when it is used
		default:
			if f.tokens[spec.Variable()], err = c.Token.Read(); err != nil {
				return err
			}
		}
	}
	return nil
}

// deliveries deliver purges to the downstream caches, which a reload replaces. They implement [isr.Downstream].
type deliveries struct {
	worker atomic.Pointer[downstream.Worker]
	delay  func() time.Duration // of [downstream.Config]
	meta   downstream.Store
	log    *slog.Logger
}

var _ isr.Downstream = (*deliveries)(nil)

// Destinations implements [isr.Downstream].
func (d *deliveries) Destinations() []string { return d.worker.Load().Destinations() }

// Wake implements [isr.Downstream].
func (d *deliveries) Wake() { d.worker.Load().Wake() }

// failures returns the destinations whose deliveries fail.
func (d *deliveries) failures() []downstream.Failure { return d.worker.Load().Failures() }

func (d *deliveries) close() { d.worker.Load().Close() }

// startDeliveries starts the deliveries to the downstream caches of flags.
func startDeliveries(ctx context.Context, f *downstreamFlags, meta downstream.Store, delay func() time.Duration, log *slog.Logger) (*deliveries, error) {
	d := &deliveries{delay: delay, meta: meta, log: log}
	worker, err := f.newWorker(ctx, d)
	if err != nil {
		return nil, err
	}
	d.worker.Store(worker)
	worker.Begin()
	return d, nil
}

// prepare prepares the deliveries to other caches. What is not delivered yet to a cache that stays is delivered by the
// new worker: jobs are in the table.
func (d *deliveries) prepare(ctx context.Context, old, next *setup) (replacement, error) {
	if slices.Equal(old.Downstream, next.Downstream) && maps.Equal(old.tokens, next.tokens) {
		return replacement{}, nil
	}
	worker, err := next.newWorker(ctx, d)
	if err != nil {
		return replacement{}, err
	}
	var before *downstream.Worker
	return replacement{
		use:     func() { before = d.worker.Swap(worker) },
		discard: worker.Close,
		retire: func(context.Context) {
			before.Close() // one process delivers to a cache at a time
			worker.Begin()
		},
	}, nil
}

// newWorker returns a worker for the downstream caches, which has not begun.
func (f *downstreamFlags) newWorker(ctx context.Context, d *deliveries) (*downstream.Worker, error) {
	specs, err := f.specs()
	if err != nil {
		return nil, err
	}
	destinations := make(map[string]downstream.Destination)
	for _, s := range specs {
		token, err := s.Token(func(name string) string { return cmp.Or(f.tokens[name], os.Getenv(name)) })
		if err != nil {
			return nil, cli.Usagef("--downstream %v", err)
		}
		if destinations[s.Name], err = s.Open(ctx, token, cloudFront); err != nil {
			return nil, cli.Usagef("--downstream %v", err)
		}
	}
	return downstream.New(d.meta, destinations, downstream.Config{Delay: d.delay, Logger: d.log})
}

// cloudFront returns the client of CloudFront, which is a global service.
func cloudFront(ctx context.Context, endpoint string) (downstream.CloudFrontAPI, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	cfg, err := awsconfig.LoadDefaultConfig(ctx, awsconfig.WithRegion("us-east-1"))
	if err != nil {
		return nil, fmt.Errorf("load AWS configuration: %w", err)
	}
	return cloudfront.NewFromConfig(cfg, func(o *cloudfront.Options) {
		if endpoint != "" {
			o.BaseEndpoint = &endpoint
		}
	}), nil
}

// A namedDownstream names the downstream caches of a command without a server: servers
// deliver what it writes to the outbox.
type namedDownstream []string

var _ isr.Downstream = namedDownstream(nil)

// Destinations implements [isr.Downstream].
func (d namedDownstream) Destinations() []string { return d }

// Wake implements [isr.Downstream].
func (namedDownstream) Wake() {}

// Named returns the names of the downstream caches.
func (f *downstreamFlags) Named() (namedDownstream, error) {
	specs, err := f.specs()
	var names namedDownstream
	for _, s := range specs {
		names = append(names, s.Name)
	}
	return names, err
}
