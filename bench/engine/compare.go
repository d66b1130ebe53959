package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// compare measures every operation on every side and prints the table.
func compare(ctx context.Context, p plan, dir string) (err error) {
	var opponents []opponent
	defer func() {
		for _, o := range opponents {
			err = errors.Join(err, o.stop())
		}
	}()
	for _, s := range p.sides {
		o, err := open(ctx, s, dir)
		if err != nil {
			return err
		}
		opponents = append(opponents, o)
	}
	printHead(p)
	for _, raw := range []bool{false, true} {
		if p.raw && !raw {
			continue
		}
		for _, workers := range p.workers {
			printSection(raw, workers)
			if err := p.section(ctx, opponents, raw, workers); err != nil {
				return err
			}
		}
	}
	return nil
}

// section measures and prints the operations of one kind of client and one
// number of workers.
func (p plan) section(ctx context.Context, opponents []opponent, raw bool, workers int) error {
	for _, op := range operations() {
		if !strings.Contains(op.name, p.rows) || raw && op.minResponse == 0 {
			continue
		}
		results, err := p.row(ctx, opponents, op, raw, workers)
		if err != nil {
			return fmt.Errorf("%s, %d workers: %w", op.name, workers, err)
		}
		printRow(op, opponents, results, raw)
	}
	return nil
}

// row measures the opponents in turns, so that a slow minute of the machine affects all
// of them. The first round warms up and does not count.
func (p plan) row(ctx context.Context, opponents []opponent, op operation, raw bool, workers int) ([][]result, error) {
	results := make([][]result, len(opponents))
	for round := range p.rounds + 1 {
		for i := range opponents {
			at := (i + round) % len(opponents) // each is first in turn
			o := opponents[at]
			if !o.supports(op) || raw && o.address == "" {
				continue
			}
			r, err := p.measure(ctx, o, op, raw, workers)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", o.title, err)
			}
			if round > 0 {
				results[at] = append(results[at], r)
			}
		}
	}
	return results, nil
}

// measure measures one opponent once.
func (p plan) measure(ctx context.Context, o opponent, op operation, raw bool, workers int) (result, error) {
	dial, err := o.dial(ctx, op, raw)
	if err != nil {
		return result{}, err
	}
	before, err := o.processor()
	if err != nil {
		return result{}, err
	}
	r, err := load(workers, p.duration, dial)
	if err != nil {
		return result{}, err
	}
	after, err := o.processor()
	r.processor = time.Duration(float64(after-before) / (r.perSecond * p.duration.Seconds()))
	return r, err
}

// dial returns how a worker connects to the opponent.
func (o opponent) dial(ctx context.Context, op operation, raw bool) (connect, error) {
	if raw {
		return dialRaw(ctx, o.address, op)
	}
	return func() (func(int) error, func() error, error) {
		call := func(i int) error { return op.call(ctx, o.api, i) }
		return call, func() error { return nil }, nil
	}, nil
}
