package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/facetheory/isr/bench/internal/process"
)

// compareStarts measures, for each server, the time from exec to the response to a
// CreateTable, the first request of a test, with an empty folder.
func compareStarts(ctx context.Context, p plan, dir string) error {
	fmt.Printf("from exec to the response to a first CreateTable, median of %d\n\n", p.rounds)
	for _, s := range p.sides {
		if s.command == nil {
			continue
		}
		var rounds []result
		for round := range p.rounds {
			took, err := firstResponse(ctx, s, filepath.Join(dir, s.name+strconv.Itoa(round)))
			if err != nil {
				return fmt.Errorf("%s: %w", s.title, err)
			}
			rounds = append(rounds, result{p50: took})
		}
		fmt.Printf("  %-26s %10v\n", s.title, short(median(rounds).p50))
	}
	return nil
}

func firstResponse(ctx context.Context, s side, dir string) (time.Duration, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return 0, err
	}
	command, err := s.command(ctx, dir)
	if err != nil {
		return 0, err
	}
	server, took, err := startAndCall(ctx, command, creation)
	if err != nil {
		return 0, err
	}
	return took, server.stop()
}

// startAndCall starts a server, makes one call, and returns how long both took.
func startAndCall(ctx context.Context, command func(string) *exec.Cmd, op operation) (server, time.Duration, error) {
	address, err := process.FreeAddress()
	if err != nil {
		return server{}, 0, err
	}
	dial, err := dialRaw(ctx, address, op) // records the request before the clock starts
	if err != nil {
		return server{}, 0, err
	}
	began := time.Now()
	s, err := start(ctx, command(address), address)
	if err != nil {
		return server{}, 0, err
	}
	call, hangUp, err := dial()
	if err == nil {
		err = errors.Join(call(0), hangUp())
	}
	took := time.Since(began)
	if err != nil {
		return server{}, 0, errors.Join(err, s.stop())
	}
	return s, took, nil
}
