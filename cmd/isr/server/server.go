package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/buffers"
	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/internal/config"
	"github.com/facetheory/isr/internal/handover"
	"github.com/facetheory/isr/internal/http3"
	"github.com/facetheory/isr/internal/notices"
	"github.com/facetheory/isr/internal/peer"
	"github.com/facetheory/isr/internal/warm"
	"github.com/facetheory/isr/store"
)

// A server is a running isr serve.
type server struct {
	*setup               // as the server has started; a reload replaces it in the reloader
	base    ServeCommand // the flags, before a file has set any
	flags   given
	streams *cli.Streams
	hangups Hangups
	// upgrades has the SIGUSR2 that the process has received, see handover.go.
	upgrades chan os.Signal
	sockets  *handover.Sockets

	// configure sets these.
	log       *slog.Logger
	adjustLog func(*config.File) // after a reload
	seen      fileStamp          // of the configuration file, when it was read
	node      *peer.Node         // nil if there are no peers

	// The parts set these when they start.
	folder         *Folder
	watch          *watched
	back           *backend
	peers          *Running
	triggers       atomic.Pointer[triggers]
	public         *public
	reloader       *reloader
	maintenance    *maintenanceSwitch
	administration *administration
	shared         *Running
	memory         atomic.Int64 // the size of the page cache
	warm           *warm.Schedule
	endWarm        func()
	notices        *notices.Notifier
	endNotices     func()
	serves         bool // the public listeners belong to running servers

	successors chan *handover.Successor // receives the process that is to serve instead of this one
	successor  *handover.Successor      // once it is received
}

// A part of a server, a worker or a function starts after the parts before it in the list, and ends before they do.
type part struct {
	// start begins the part; nil if it has begun with an earlier one. end, which may be nil, ends the part,
	// also if a later part fails.
	start func(context.Context) (end func(), err error)
	// drain lets the work in flight finish until the context is done; nil if there is none. It is called before
	// any part ends, and only if the server was asked to stop.
	drain func(context.Context)
	// prepare prepares what a reload does to the part; nil if it does nothing. The part has started.
	prepare func(ctx context.Context, old, next *setup) (replacement, error)
}

// startParts starts parts in their order, until one fails. end ends those that have started, in the reverse
// order.
func startParts(ctx context.Context, parts []part) (end func(), err error) {
	var ends []func()
	end = func() {
		for _, end := range slices.Backward(ends) {
			end()
		}
	}
	for _, p := range parts {
		if p.start == nil {
			continue
		}
		ended, err := p.start(ctx)
		if ended != nil {
			ends = append(ends, ended)
		}
		if err != nil {
			return end, err
		}
	}
	return end, nil
}

// drainParts lets parts finish their work in flight, in the reverse order, until ctx is done.
func drainParts(ctx context.Context, parts []part) {
	for _, p := range slices.Backward(parts) {
		if p.drain != nil {
			p.drain(ctx)
		}
	}
}

// parts lists the parts of a server in the order in which they start. It is drained, and then ends, in the
// reverse order: the listeners accept no more requests before the cache closes, and the shared store stops
// after the cache, because the site may need it to render.
func (s *server) parts() []part {
	return []part{
		{start: s.startFolder},
		{prepare: s.prepareAccessLog}, // which startWatch opens
		{start: s.startWatch, prepare: s.prepareWatch},
		{start: s.startBackend, prepare: s.prepareDeliveries},
		{start: s.startPeers},
		{start: s.startDisk, prepare: s.prepareDisk},
		{start: s.makeTriggers, prepare: s.prepareTriggers},
		{start: s.startListeners},
		{start: s.startSite},
		{start: s.startAdmin},
		{start: s.startMemory, prepare: s.prepareMemory},
		{start: s.startProcessors},
		{start: s.startShared, drain: s.drainShared},
		{drain: s.drainCache}, // after everything that asks it for regenerations
		{start: s.startReloads, drain: s.drainReloads},
		{start: s.startEdge},
		{start: s.startTriggers, drain: s.drainTriggers},
		{start: s.makeWarm, prepare: s.prepareWarm},
		{start: s.makeNotices, prepare: s.prepareNotices},
		{start: s.checkSockets},
		{start: s.startPublic, drain: s.drainPublic, prepare: s.preparePublic},
		{start: s.startHangups},
		{start: s.startFileWatch},
		{start: s.startWarm, drain: s.drainWarm},
		{start: s.startNotices, drain: s.drainNotices},
		{start: s.startUpgrades},
	}
}

// run starts the parts, and serves until ctx is done or a part fails. Once ctx is done, /readyz fails while the
// server still serves (--drain), so that load balancers remove it; then the work in flight finishes within the
// grace period, and the leases of other work are released.
func (s *server) run(ctx context.Context) error {
	parts := s.parts()
	end, err := startParts(ctx, parts)
	defer end()
	if err != nil {
		return err
	}
	s.sockets.Serving()
	supervisor{s.log}.ready()
	if err := s.failure(ctx); err != nil {
		return err
	}
	graceful := s.drain(ctx)
	s.log.Info("stopping", "grace", graceful)
	grace, cancel := WithGrace(ctx, graceful)
	defer cancel()
	drainParts(grace, parts)
	s.log.Info("stopped")
	return nil
}

// addresses returns the configured addresses.
func (s *server) addresses() (all []string) {
	for _, l := range s.file.Listen {
		all = append(all, l.Address)
	}
	for _, at := range []string{s.Health, s.Metrics, s.Peer, s.DynamodbListen} {
		if at != "" {
			all = append(all, at)
		}
	}
	if s.admin.address != nil {
		all = append(all, s.admin.address.String())
	}
	return all
}

// failure waits for the failure of a part. It returns nil once ctx is done, or a successor is to take over.
func (s *server) failure(ctx context.Context) error {
	select {
	case err := <-s.public.failed:
		return err
	case err := <-s.shared.Failed:
		return err
	case err := <-s.watch.failed:
		return err
	case err := <-s.peers.Failed:
		return err
	case s.successor = <-s.successors:
		return nil
	case <-ctx.Done():
		return nil
	}
}

// drain keeps serving for a while, before connections are refused, and returns the time that work in flight then gets. Load
// balancers are told by /readyz, unless a successor takes over, and clients by Connection: close.
func (s *server) drain(ctx context.Context) (graceful time.Duration) {
	s.reloader.close()
	now := s.reloader.present()
	drain := now.drainTime(s.public.addresses()...)
	graceful = now.graceTime(longestRender(now.file, time.Duration(now.RenderTimeout)))
	switch {
	case s.successor != nil:
		drain = lastResponses
	default:
		s.watch.health.drain()
		if s.sockets.Managed() && now.Drain == nil {
			drain = max(drain, lastResponses)
		}
		supervisor{s.log}.stopping(drain + graceful + DefaultGrace)
	}
	s.public.end()
	if drain > 0 {
		s.log.Info("draining: still serving, and closing connections after their next response", "for", drain)
		_ = backoff.Wait(context.WithoutCancel(ctx), drain)
	}
	return graceful
}

// configure reads and validates the configuration. It starts nothing.
func (s *server) configure() (err error) {
	s.seen = stampOf(s.Config)
	file, err := s.read(s.flags)
	if err != nil {
		return s.flags.named(err, nil)
	}
	if s.setup, err = s.plan(s.flags, file, nil); err != nil {
		return err
	}
	log, adjust := s.adjustable(s.streams)
	s.log, s.adjustLog = log, s.adjustedBy(s.flags, adjust)
	return s.join()
}

// join makes this server a node among its peers, if it has any.
func (s *server) join() (err error) {
	if s.node, err = s.ServeCommand.node(s.Table, s.Poll > 0, s.log); err != nil {
		return err
	}
	if s.node != nil {
		s.owner = store.OwnerWithPeer(nodeName(), s.node.Address())
	}
	return nil
}

// startFolder claims the data folder. A successor waits until its predecessor has closed the store in it.
func (s *server) startFolder(ctx context.Context) (end func(), err error) {
	if err := s.sockets.Await(ctx); err != nil {
		return nil, fmt.Errorf("wait for the process that serves: %w", err)
	}
	if s.folder, err = claim(s.Data, s.sockets.Lock()); err != nil {
		return nil, err
	}
	return s.folder.Release, nil
}

func (s *server) startWatch(ctx context.Context) (end func(), err error) {
	if s.watch, err = s.observed(ctx, s.sockets, s.streams.Out, s.log); err != nil {
		return nil, err
	}
	return s.watch.close, nil
}

func (s *server) prepareWatch(ctx context.Context, old, next *setup) (replacement, error) {
	return s.watch.prepare(ctx, s.sockets, old, next, s.log)
}

func (s *server) prepareAccessLog(_ context.Context, old, next *setup) (replacement, error) {
	return s.watch.inst.access.prepare(old.accessLog(), next.accessLog())
}

func (s *server) startBackend(ctx context.Context) (end func(), err error) {
	s.buffered = buffers.New(s.bufferBytes())
	if s.back, err = s.openBackend(ctx, s.file, s.watch.inst, s.node, nil, s.log); err != nil {
		return nil, err
	}
	return func() { s.back.close(s.log) }, nil
}

func (s *server) startPeers(ctx context.Context) (end func(), err error) {
	if s.peers, err = servePeers(ctx, s.sockets, s.node, s.back.cache, s.log); err != nil {
		return nil, err
	}
	return func() { _ = closePeers(s.node, s.peers) }, nil // hints only
}

func (s *server) startDisk(ctx context.Context) (end func(), err error) {
	return s.keepDisk(ctx, s.back.st, s.back.cache, s.watch.inst.metrics), nil
}

func (s *server) prepareDeliveries(ctx context.Context, old, next *setup) (replacement, error) {
	return s.back.deliveries.prepare(ctx, old, next)
}

func (s *server) prepareDisk(ctx context.Context, old, next *setup) (replacement, error) {
	return s.back.st.prepareDisk(ctx, old, next)
}

// makeTriggers makes the triggers, which purge nothing until startTriggers.
func (s *server) makeTriggers(ctx context.Context) (end func(), err error) {
	made, err := s.ServeCommand.triggers(ctx, s.triggerPlan, s.back.cache, s.back.st, s.watch.inst, s.log)
	s.triggers.Store(made)
	return nil, err
}

// prepareTriggers prepares other triggers. Their secrets, which may be in files, count as well.
func (s *server) prepareTriggers(ctx context.Context, old, next *setup) (replacement, error) {
	if reflect.DeepEqual(old.triggerPlan, next.triggerPlan) {
		return replacement{}, nil
	}
	made, err := next.ServeCommand.triggers(ctx, next.triggerPlan, s.back.cache, s.back.st, s.watch.inst, s.log)
	if err != nil {
		return replacement{}, err
	}
	var before *triggers
	return replacement{
		use: func() {
			before = s.triggers.Swap(made)
			made.start(context.Background())
		},
		retire: func(ctx context.Context) { before.stop(ctx, s.log) },
	}, nil
}

// startListeners listens at the public addresses. Requests wait until startPublic.
func (s *server) startListeners(ctx context.Context) (end func(), err error) {
	s.admin.triggers, s.admin.health = &s.triggers, s.watch.health
	s.public = &public{failed: make(chan error, 1), sockets: s.sockets, log: s.log}
	if inst := s.watch.inst; inst.observesHits() {
		s.public.hits = inst
	}
	listening, err := s.public.open(ctx, s.setup)
	if err != nil {
		return nil, err
	}
	s.public.present.Store(listening)
	s.public.setHosts(s.file, listening)
	return func() {
		if !s.serves {
			s.public.close()
		}
	}, nil
}

func (s *server) startSite(context.Context) (end func(), err error) {
	inst := s.watch.inst
	if s.reloader, err = s.serveSite(s.back.cache, s.flags, s.back.digest, inst, s.log); err != nil {
		return nil, err
	}
	s.reloader.public, s.reloader.parts, s.reloader.adjustLog = s.public, s.parts(), s.adjustLog
	s.reloader.read = func() (*config.File, error) { return s.base.read(s.flags) }
	s.reloader.plan = func(f *config.File) (*setup, error) { return s.base.plan(s.flags, f, s.ServeCommand) }
	s.public.observe, s.reloader.reopenLogs = inst.observe(), inst.access.reopen
	if s.maintenance, err = keepMaintenance(s.reloader.site, s.folder, s.log); err != nil {
		return s.reloader.site.Close, err
	}
	return s.reloader.site.Close, nil
}

func (s *server) startAdmin(ctx context.Context) (end func(), err error) {
	cfg := s.administered(s.back.cache, s.back.st, s.back.deliveries, s.reloader, s.watch.inst, s.maintenance, s.problems, s.log)
	if s.administration, err = s.admin.administer(ctx, s.sockets, s.folder, s.back.st, cfg, s.streams, s.log); err != nil {
		return nil, err
	}
	return s.administration.close, nil
}

// problems returns why the server is degraded.
func (s *server) problems() []problem {
	return slices.Concat(degraded(s.back.st, s.back.cache, s.back.deliveries), s.public.problems(), schemeProblems(s.reloader.site), s.maintenance.problems())
}

func (s *server) startMemory(ctx context.Context) (end func(), err error) {
	s.memory.Store(int64(s.Memory))
	return keepMemory(ctx, &s.memory, ReadSystemLimits().Memory), nil
}

func (s *server) prepareMemory(_ context.Context, old, next *setup) (replacement, error) {
	if old.Memory == next.Memory {
		return replacement{}, nil
	}
	return replacement{use: func() {
		s.memory.Store(int64(next.Memory))
		s.back.cache.SetMemory(int64(next.Memory))
	}}, nil
}

func (s *server) startProcessors(ctx context.Context) (end func(), err error) {
	return KeepProcessors(ctx, s.back.st.engine), nil
}

// startShared serves the embedded store to other programs as DynamoDB. Without --dynamodb-listen the server is
// an idle one, which never fails.
func (s *server) startShared(ctx context.Context) (end func(), err error) {
	if s.DynamodbListen == "" {
		s.shared = &Running{server: new(http.Server)}
		return nil, nil
	}
	s.shared, err = s.DynamodbKeys.Serve(ctx, s.sockets, "--dynamodb-listen", s.DynamodbListen, s.back.st.engine, nil, s.log)
	return nil, err
}

func (s *server) drainShared(ctx context.Context) {
	grace, cancel := WithGrace(ctx, DefaultGrace) // a grace period of its own: its clients learn of the shutdown only now
	defer cancel()
	s.shared.Stop(grace, s.log)
}

// startReloads lets parts that were replaced end before the cache closes.
func (s *server) startReloads(context.Context) (end func(), err error) { return s.reloader.end, nil }

func (s *server) drainReloads(ctx context.Context) { s.reloader.drain(ctx) }

// startEdge puts the site behind the edges of all listeners.
func (s *server) startEdge(context.Context) (end func(), err error) {
	site, err := s.withPurgeMethod(s.reloader.site, s.administration, s.admin, s.folder, s.streams, s.log)
	if err != nil {
		return nil, err
	}
	s.edge(s.public.now(), s.setup, site)
	return nil, nil
}

// edge puts a site behind the edges of listeners.
func (s *server) edge(at *listening, of *setup, site http.Handler) {
	s.public.edge(at, of, withDrafts(of.draftSecrets, s.reloader.site, site), s.triggers.Load().onPublic, s.watch.health)
}

// preparePublic prepares the listeners of a configuration, and their edges. Addresses that are new are opened before those that
// are gone are closed; one that cannot be opened refuses the configuration.
func (s *server) preparePublic(ctx context.Context, _, next *setup) (replacement, error) {
	site, err := next.withPurgeMethod(s.reloader.site, s.administration, next.admin, s.folder, s.streams, s.log)
	if err != nil {
		return replacement{}, err
	}
	opened, err := s.public.open(ctx, next)
	if err != nil {
		return replacement{}, err
	}
	var before *listening
	return replacement{
		use: func() {
			perClient := connectionsOfClient(ReadSystemLimits().Files, next.MaxClientConnections)
			s.public.limits.SetPerClient(perClient)
			s.public.limits3.SetPerClient(perClient)
			s.edge(opened, next, site)
			before = s.public.serve(ctx, opened)
		},
		discard: func() { s.public.discard(opened) },
		retire:  func(ctx context.Context) { s.public.retire(ctx, before) },
	}, nil
}

func (s *server) drainCache(ctx context.Context) {
	if err := s.back.cache.Close(ctx); err != nil {
		s.log.Warn("regenerations canceled at shutdown", "error", err)
	}
}

func (s *server) startTriggers(ctx context.Context) (end func(), err error) {
	s.triggers.Load().start(ctx)
	return nil, nil
}

// checkSockets fails if the service manager has handed in a socket that is at no address of the server.
func (s *server) checkSockets(context.Context) (end func(), err error) {
	return nil, s.sockets.CheckUsed(s.addresses())
}

func (s *server) drainTriggers(ctx context.Context) { s.triggers.Load().stop(ctx, s.log) }

// startHangups begins to handle SIGHUP.
func (s *server) startHangups(ctx context.Context) (end func(), err error) {
	return s.hangups.Each(ctx, s.reloader.signaled), nil
}

func (s *server) startFileWatch(ctx context.Context) (end func(), err error) {
	return s.watchFile(ctx, s.reloader, s.seen), nil
}

func (s *server) startPublic(ctx context.Context) (end func(), err error) {
	p, inst := s.public, s.watch.inst
	files := ReadSystemLimits().Files
	p.limits = connections(files, s.MaxClientConnections, s.buffered, s.log)
	p.limits3 = http3.NewLimits(visitorConnections(files), connectionsOfClient(files, s.MaxClientConnections))
	p.serve(ctx, p.now())
	s.serves = true
	s.reloader.begin()
	s.watch.health.ready(s.problems)
	s.log.Info("serving "+strings.Join(p.urls(), ", "), "origin", originText(s.file), "store", s.back.st.Where)
	for _, origin := range addresses(s.file) {
		go warnOfOrigin(ctx, origin, s.log)
	}
	go reportBypasses(ctx, inst.live, p.urls()[0], s.reloader.naming, s.log)
	sampled := sources(s.back.st, s.back.cache, s.reloader.site, s.buffered, p.limits, s.back.deliveries, s.watch.health, inst)
	sampled.HTTP3 = p.http3Counts
	inst.metrics.Sample(sampled)
	return nil, nil
}

func (s *server) drainPublic(ctx context.Context) {
	s.reloader.site.Drain()
	s.public.stop(ctx)
}
