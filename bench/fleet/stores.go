package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/facetheory/isr/bench/internal/process"
)

const (
	region    = "us-east-1"
	accessKey = "bench"
	secretKey = "bench-fleet-secret"
)

// stores are the servers of tables and buckets.
type stores struct {
	dynamodb, s3 string // URLs
	bodies       string // the folder with a folder for each bucket
	run          []*process.Process
	bucket       *distantBucket // in front of all buckets; nil before it was started
}

func startStores(ctx context.Context, dir, binary, gateway string, latency time.Duration) (*stores, error) {
	s := &stores{bodies: filepath.Join(dir, "buckets")}
	if err := os.MkdirAll(s.bodies, 0o700); err != nil {
		return s, err
	}
	tables, err := process.FreeAddress()
	if err != nil {
		return s, err
	}
	if err := s.start(ctx, tables, exec.CommandContext(ctx, binary, "dynamodb", "--data", filepath.Join(dir, "tables"), "--listen", tables)); err != nil {
		return s, err
	}
	buckets, err := process.FreeAddress()
	if err != nil {
		return s, err
	}
	if s.bucket, err = newDistantBucket("http://"+buckets, latency); err != nil {
		return s, err
	}
	s.dynamodb, s.s3 = "http://"+tables, s.bucket.URL
	return s, s.start(ctx, buckets, exec.CommandContext(ctx, gateway, "--access", accessKey, "--secret", secretKey, "--port", buckets, "--quiet", "posix", s.bodies))
}

func (s *stores) start(ctx context.Context, address string, cmd *exec.Cmd) error {
	run, err := process.Start(ctx, cmd, process.Accepts(address))
	if err == nil {
		s.run = append(s.run, run)
	}
	return err
}

func (s *stores) stop() {
	for _, run := range s.run {
		_ = run.Stop() // it may have ended
	}
	if s.bucket != nil {
		s.bucket.Close()
	}
}

// environment is the environment of processes that use the stores.
func (s *stores) environment() []string {
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "AWS_") && !strings.HasPrefix(v, "ISR_") {
			env = append(env, v)
		}
	}
	return append(env, "AWS_ACCESS_KEY_ID="+accessKey, "AWS_SECRET_ACCESS_KEY="+secretKey, "AWS_EC2_METADATA_DISABLED=true", "AWS_REGION="+region)
}
