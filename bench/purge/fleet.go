package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/facetheory/isr/bench/internal/process"
)

// A node is an isr process.
type node struct {
	address, admin string
	process        *process.Process
}

type fleet []*node

const (
	adminToken = "bench-purge-0123456789abcdef"
	patience   = 30 * time.Second // until all nodes have a page
)

func (p plan) startFleet(ctx context.Context, dir, binary string, s *site) (fleet, error) {
	var f fleet
	for i := range p.nodes {
		n, err := p.startNode(ctx, filepath.Join(dir, fmt.Sprint("node", i)), binary, s)
		if err != nil {
			return f, err
		}
		f = append(f, n)
	}
	return f, nil
}

// startNode starts a node, and waits until it serves pages.
func (p plan) startNode(ctx context.Context, data, binary string, s *site) (*node, error) {
	n := &node{}
	var err error
	if n.address, err = process.FreeAddress(); err != nil {
		return nil, err
	}
	if n.admin, err = process.FreeAddress(); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, binary, "serve", "--origin", "http://"+s.address, "--listen", n.address, "--admin", n.admin, "--host", "*",
		"--data", data, "--poll", p.poll.String(), "--table", p.table, "--create-table", "--bucket", p.bucket,
		"--region", region, "--dynamodb-endpoint", p.dynamodb, "--s3-endpoint", p.s3)
	cmd.Env = append(os.Environ(), "ISR_ADMIN_TOKEN="+adminToken)
	n.process, err = process.Start(ctx, cmd, func(ctx context.Context) error {
		_, _, err := n.get(ctx, pagePath(0))
		return err
	})
	return n, err
}

func (f fleet) stop() {
	for _, n := range f {
		_ = n.process.Stop() // it may have ended
	}
}

// get returns a page and its Cache-Status.
func (n *node) get(ctx context.Context, path string) (body, status string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.address+path, nil)
	if err != nil {
		return "", "", err
	}
	r.Host = host
	text, res, err := do(r)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: status %d: %.200s", path, res.StatusCode, text)
	}
	if err != nil {
		return "", "", err
	}
	return text, res.Header.Get("Cache-Status"), nil
}

func do(r *http.Request) (string, *http.Response, error) {
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return string(text), res, err
}

// host is the site's name. The cache keys of its pages begin with it.
const host = "www.example.com"

// isFresh reports whether a page was served from the cache as fresh.
func isFresh(status string) bool {
	return strings.Contains(status, "hit") && !strings.Contains(status, "detail=")
}

// warm requests a page from every node until all have its current version in memory.
func (f fleet) warm(ctx context.Context, s *site, path string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	want := s.text(path, s.version.Load())
	for _, n := range f {
		for {
			body, status, err := n.get(ctx, path)
			if err != nil {
				return err
			}
			if isFresh(status) && strings.HasPrefix(body, want) {
				break
			}
			time.Sleep(2 * time.Millisecond)
		}
	}
	return nil
}

// awaitChange polls a page on all nodes, every millisecond. The returned function waits
// until none serves the old content as fresh, and returns when that was.
func (f fleet) awaitChange(ctx context.Context, path, old string) (done func() (time.Time, error)) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	var wg sync.WaitGroup
	ends, errs := make([]time.Time, len(f)), make([]error, len(f))
	for i, n := range f {
		wg.Go(func() {
			for {
				asked := time.Now()
				body, status, err := n.get(ctx, path)
				if err != nil || !isFresh(status) || !strings.HasPrefix(body, old) {
					ends[i], errs[i] = asked, err
					return
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	return func() (time.Time, error) {
		defer cancel()
		wg.Wait()
		last := ends[0]
		for _, end := range ends {
			if end.After(last) {
				last = end
			}
		}
		return last, errors.Join(errs...)
	}
}

// A purgeReply is the answer of the admin API.
type purgeReply struct {
	Seq   int64   `json:"seq"`
	Units float64 `json:"write_units"`
}

// purge purges the tag, softly.
func (n *node) purge(ctx context.Context) (reply purgeReply, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+n.admin+"/-/purge", strings.NewReader(`{"targets": [{"tag": "`+tag+`"}]}`))
	if err != nil {
		return reply, err
	}
	r.Header.Set("Authorization", "Bearer "+adminToken)
	r.Header.Set("Content-Type", "application/json")
	text, res, err := do(r)
	switch {
	case err != nil:
		return reply, err
	case res.StatusCode != http.StatusOK:
		return reply, fmt.Errorf("purge: status %d: %s", res.StatusCode, text)
	}
	return reply, json.Unmarshal([]byte(text), &reply)
}
