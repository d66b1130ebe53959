package server

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/facetheory/isr/internal/handover"
)

const (
	// lastResponses is how long a server whose sockets stay open closes connections after their next response, before it
	// closes idle ones: a client that sends a request at least this often never sends one on a connection that is being
	// closed.
	lastResponses = time.Second
	// handoverTime bounds the start of a successor, and the time in which it opens the store.
	handoverTime = time.Minute
)

// catchUpgrades has SIGUSR2 sent to a channel instead of ending the program, until stop is called.
func catchUpgrades() (signals chan os.Signal, stop func()) {
	signals = make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR2)
	return signals, func() { signal.Stop(signals) }
}

// serve runs the server until ctx is done, a part fails, or a successor serves. If a successor fails once the store is closed, the
// server starts again, on the same sockets.
func (s *server) serve(ctx context.Context) error {
	for {
		s.successors = make(chan *handover.Successor, 1)
		err := s.run(ctx)
		next := s.successor
		if next == nil {
			select {
			case next := <-s.successors: // this server was to stop at the same time
				next.Stop()
			default:
			}
			return err
		}
		pid := next.PID()
		limited, cancel := context.WithTimeoutCause(ctx, handoverTime, fmt.Errorf("it did not serve within %s", handoverTime))
		err = next.Proceed(limited)
		cancel()
		if err == nil {
			s.log.Info("the new process serves", "pid", pid)
			supervisor{s.log}.replacedBy(pid)
			return nil
		}
		sockets, takeErr := next.Sockets()
		if takeErr != nil {
			return takeErr
		}
		if ctx.Err() != nil {
			return nil // asked to stop, as the successor was
		}
		s.log.Error("the new process failed to start: serving again", "error", err)
		s, err = s.again(sockets)
		if err != nil {
			return err
		}
	}
}

// again returns a server with the same configuration that has not started.
func (s *server) again(sockets *handover.Sockets) (_ *server, err error) {
	next := &server{
		setup: s.reloader.present(), base: s.base, flags: s.flags, streams: s.streams, hangups: s.hangups, upgrades: s.upgrades, sockets: sockets,
		log: s.log, adjustLog: s.adjustLog, seen: s.seen,
	}
	return next, next.join()
}

// startUpgrades begins to handle SIGUSR2: it starts a successor, which takes over once its configuration is valid.
func (s *server) startUpgrades(ctx context.Context) (end func(), err error) {
	found := false
	return Hangups(s.upgrades).Each(ctx, func() {
		if found {
			return
		}
		next, err := s.prepareSuccessor(ctx)
		if err != nil {
			s.log.Error("failed to hand over: still serving", "error", err)
			return
		}
		found = true
		s.successors <- next
	}), nil
}

// prepareSuccessor starts a successor, and waits until it has checked its configuration.
func (s *server) prepareSuccessor(ctx context.Context) (*handover.Successor, error) {
	next, err := s.sockets.Start(s.folder.lock)
	if err != nil {
		return nil, err
	}
	s.log.Info("handing over to a new process", "pid", next.PID())
	ctx, cancel := context.WithTimeoutCause(ctx, handoverTime, fmt.Errorf("it was not prepared within %s", handoverTime))
	defer cancel()
	return next, next.Prepared(ctx)
}
