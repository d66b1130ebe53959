package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/bench/internal/process"
)

// A site renders each page for a while, and remembers when it had it.
type site struct {
	*httptest.Server
	renders atomic.Int64
	mu      sync.Mutex
	ended   map[string]time.Time // guarded by mu: by path
}

func newSite(p plan) *site {
	s := &site{ended: make(map[string]time.Time)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.renders.Add(1)
		took := p.render
		if p.spread > 0 {
			took += time.Duration(rand.Int64N(int64(2*p.spread))) - p.spread
		}
		time.Sleep(took)
		s.mu.Lock()
		s.ended[r.URL.Path] = time.Now()
		s.mu.Unlock()
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "s-maxage=3600")
		fmt.Fprintf(w, "%10240s", r.URL.Path)
	}))
	return s
}

// A side is a fleet with a table, a bucket and a site of its own.
type side struct {
	name, binary string
	peers        bool

	site     *site
	nodes    []string // addresses
	run      []*process.Process
	commands []func() *exec.Cmd
	late     []time.Duration // of all visitors, after the end of their render
	http     *http.Client
}

func (s *side) start(ctx context.Context, p plan, dir string, st *stores) error {
	s.site = newSite(p)
	s.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: p.clients, DisableCompression: p.plain}}
	bucket := "isr-" + s.name
	if err := os.MkdirAll(filepath.Join(st.bodies, bucket), 0o700); err != nil {
		return err
	}
	for i := range p.nodes {
		address, err := process.FreeAddress()
		if err != nil {
			return err
		}
		args := []string{
			"serve", "--origin", s.site.URL, "--listen", address, "--admin", "none", "--host", "*", "--data", filepath.Join(dir, s.name, fmt.Sprint(i)),
			"--table", "isr-" + s.name, "--create-table", "--bucket", bucket, "--region", region, "--dynamodb-endpoint", st.dynamodb, "--s3-endpoint", st.s3,
			"--require-store", "--max-renders", "0", "--log-level", "error",
		}
		if s.peers {
			at, err := process.FreeAddress()
			if err != nil {
				return err
			}
			args = append(args, "--peer", at)
		}
		command := func() *exec.Cmd {
			cmd := exec.CommandContext(ctx, s.binary, args...)
			cmd.Env = append(st.environment(), "ISR_PEER_SECRET=bench-fleet-0123456789abcdef0123456789abcdef")
			return cmd
		}
		run, err := process.Start(ctx, command(), process.Accepts(address))
		if err != nil {
			return err
		}
		s.commands = append(s.commands, command)
		s.nodes, s.run = append(s.nodes, address), append(s.run, run)
	}
	return nil
}

// again restarts the nth process.
func (s *side) again(ctx context.Context, n int) error {
	_ = s.run[n].Stop() // it may have ended
	s.http.CloseIdleConnections()
	run, err := process.Start(ctx, s.commands[n](), process.Accepts(s.nodes[n]))
	if err == nil {
		s.run[n] = run
	}
	return err
}

func (s *side) stop() {
	for _, run := range s.run {
		_ = run.Stop() // it may have ended
	}
	if s.site != nil {
		s.site.Close()
	}
}

// round lets all visitors ask for a new page, and returns how late each had it.
func (s *side) round(ctx context.Context, p plan, n int) ([]time.Duration, error) {
	path := fmt.Sprintf("/page/%d", n)
	had, errs := make([]time.Time, p.clients), make([]error, p.clients)
	var wg sync.WaitGroup
	for i := range p.clients {
		wg.Go(func() {
			errs[i] = s.get(ctx, s.nodes[(i+n)%len(s.nodes)], path)
			had[i] = time.Now()
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	s.site.mu.Lock()
	ended := s.site.ended[path]
	s.site.mu.Unlock()
	late := make([]time.Duration, p.clients)
	for i, at := range had {
		late[i] = at.Sub(ended)
	}
	return late, nil
}

func (s *side) get(ctx context.Context, node, path string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+node+path, http.NoBody)
	if err != nil {
		return err
	}
	r.Host = "www.example.com"
	res, err := s.http.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	n, err := io.Copy(io.Discard, res.Body)
	if err == nil && (res.StatusCode != http.StatusOK || n != 10240) {
		err = fmt.Errorf("%s: status %d, %d bytes, %s", path, res.StatusCode, n, res.Header.Get("Cache-Status"))
	}
	return err
}
