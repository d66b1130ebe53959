package compare

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/facetheory/isr/bench/internal/peer"
	"github.com/facetheory/isr/bench/internal/site"
)

func (r *Run) all(ctx context.Context, b Bench) (*Report, error) {
	report, err := newReport(ctx, b.Name, r)
	if err != nil {
		return nil, err
	}
	for _, s := range b.Scenarios(r) {
		result, err := r.scenario(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		if len(result.Servers) > 0 {
			report.Scenarios = append(report.Scenarios, result)
		}
	}
	if len(report.Scenarios) == 0 {
		return nil, errors.New("nothing was measured: --only matches no SCENARIO/SERVER that is installed")
	}
	return report, nil
}

// A side is a server during a scenario.
type side struct {
	peer   peer.Peer
	server *peer.Server // nil if each round starts one
	report *Server
}

func (r *Run) scenario(ctx context.Context, s Scenario) (*Result, error) {
	result := &Result{Name: s.Name, About: s.About, Baseline: s.Baseline, Columns: s.Columns}
	var sides []*side
	defer func() {
		for _, side := range sides {
			if side.server != nil {
				_ = side.server.Stop() // only its folder remains, which is removed
			}
		}
	}()
	for _, p := range s.Peers {
		if !r.only.MatchString(s.Name + "/" + p.Name) {
			continue
		}
		if err := p.Installed(); err != nil {
			result.Missing = append(result.Missing, err.Error())
			continue
		}
		side := &side{peer: p, report: &Server{Name: p.Name, Version: p.Version(ctx), Note: p.Note}}
		if !s.Fresh {
			var err error
			if side.server, err = r.start(ctx, s, p); err != nil {
				return nil, err
			}
		}
		sides = append(sides, side)
		result.Servers = append(result.Servers, side.report)
	}
	if len(sides) == 0 {
		return result, nil
	}
	for round := range r.Rounds {
		fmt.Fprintf(os.Stderr, "%s: round %d of %d\n", s.Name, round+1, r.Rounds)
		for i := range sides {
			at := (i + round) % len(sides) // each is first in turn
			if err := r.once(ctx, s, sides[at], round); err != nil {
				return nil, err
			}
		}
	}
	result.summarize(r.Rounds)
	return result, nil
}

func (r *Run) start(ctx context.Context, s Scenario, p peer.Peer) (*peer.Server, error) {
	server, err := p.Ready(ctx, r.place, site.Page)
	if err != nil {
		return nil, err
	}
	if s.Prepare == nil {
		return server, nil
	}
	if err := s.Prepare(ctx, server); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", p.Name, err), server.Stop())
	}
	return server, nil
}

// once measures one server once. A measurement that fails is refused, and the run goes on.
func (r *Run) once(ctx context.Context, s Scenario, side *side, round int) error {
	server := side.server
	if s.Fresh {
		var err error
		if server, err = r.start(ctx, s, side.peer); err != nil {
			return err
		}
		defer func() { _ = server.Stop() }() // only its folder remains, which is removed
	}
	before, err := observe()
	if err != nil {
		return err
	}
	values, failed := s.Measure(ctx, server, round)
	if err := ctx.Err(); err != nil {
		return err
	}
	foreign, err := before.foreign()
	if err != nil {
		return err
	}
	m := Measurement{Round: round, Values: values, LoadAverage: before.average, ForeignCPUs: foreign}
	if failed != nil {
		m.Values, m.Refused = nil, failed.Error()
		fmt.Fprintf(os.Stderr, "%s: %s: refused: %v\n", s.Name, side.peer.Name, failed)
	}
	side.report.Measurements = append(side.report.Measurements, m)
	return nil
}
