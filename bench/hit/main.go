// Hit measures cache hits on a 10 KiB page: requests per second and latency of isr, of
// nginx's proxy_cache, and of a bare net/http handler that writes the same page, under
// the same load of wrk, in one run, in turns.
//
//	go run -C bench ./hit
//
// It needs nginx and wrk. Compare ratios rather than absolute figures: machines differ,
// and a shared one differs from minute to minute.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	rounds := flag.Int("rounds", 5, "number of rounds; each measures every server once")
	duration := flag.Duration("duration", 4*time.Second, "length of one measurement")
	connections := flag.Int("connections", 64, "concurrent connections of wrk")
	bare := flag.String("bare", "", "serve the page from memory on this `address` and do nothing else (used by the benchmark itself)")
	flag.Parse()
	if *bare != "" {
		fail(http.ListenAndServe(*bare, page()))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	fail(run(ctx, wrk{connections: *connections, duration: *duration}, *rounds))
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/hit:", err)
		os.Exit(1)
	}
}

// page returns the origin: 10 KiB of HTML, fresh for an hour.
func page() http.Handler {
	body := bytes.Repeat([]byte("<p>0123456789abcdef</p>\n\n\n\n\n\n\n\n\n"), 320)
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Cache-Control", "s-maxage=3600")
		h.Set("Content-Length", fmt.Sprint(len(body)))
		_, _ = w.Write(body) // wrk closes its connections at the end
	})
}

func run(ctx context.Context, load wrk, rounds int) error {
	for _, tool := range []string{"nginx", "wrk"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%s is not installed (Debian: apt-get install nginx-light wrk)", tool)
		}
	}
	dir, err := os.MkdirTemp("", "isr-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	origin, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: page(), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(origin) }() // ends with Close
	defer server.Close()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var peers []peer
	for _, start := range []func(context.Context, string, string) (peer, error){startISR, startNginx, startBare} {
		p, err := start(ctx, dir, origin.Addr().String())
		if err != nil {
			return err
		}
		defer p.wait()
		peers = append(peers, p)
	}
	defer cancel() // before the waits
	if err := measure(ctx, load, rounds, peers); err != nil {
		return err
	}
	return reportAllocations(dir)
}

// measure measures the peers in turns, so that a slow minute of the machine affects all
// of them, and prints medians.
func measure(ctx context.Context, load wrk, rounds int, peers []peer) error {
	results := make([][]result, len(peers))
	for round := range rounds {
		for i := range peers {
			at := (i + round) % len(peers) // each is first in turn
			r, err := load.run(ctx, peers[at].url)
			if err != nil {
				return fmt.Errorf("%s: %w", peers[at].name, err)
			}
			results[at] = append(results[at], r)
		}
	}
	fmt.Printf("%d rounds of %v, %d connections, medians\n\n%-12s %12s %12s %10s\n", rounds, load.duration, load.connections, "", "requests/s", "p99", "of nginx")
	nginx := median(results[1], func(r result) float64 { return r.perSecond })
	for i, p := range peers {
		perSecond := median(results[i], func(r result) float64 { return r.perSecond })
		p99 := median(results[i], func(r result) float64 { return r.p99.Seconds() })
		fmt.Printf("%-12s %12.0f %12v %9.2fx\n", p.name, perSecond, time.Duration(p99*float64(time.Second)).Round(10*time.Microsecond), perSecond/nginx)
	}
	return nil
}

func median(results []result, value func(result) float64) float64 {
	values := make([]float64, len(results))
	for i, r := range results {
		values[i] = value(r)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// A peer is one of the servers that are compared, in a process of its own.
type peer struct {
	name, url string
	wait      func()
}

// start runs a server and waits until it serves the page, which also fills its cache.
func start(ctx context.Context, name, address string, command ...string) (peer, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	var log bytes.Buffer
	cmd.Stderr = &log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		return peer{}, err
	}
	p := peer{name: name, url: "http://" + address + "/page", wait: func() { _ = cmd.Wait() }} // stopped by its context
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		res, err := http.Get(p.url)
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return p, nil
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	return peer{}, fmt.Errorf("%s does not serve the page; its output:\n%s", name, log.String())
}

// freeAddress returns an address that is not in use.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func startISR(ctx context.Context, dir, origin string) (peer, error) {
	binary := filepath.Join(dir, "isr")
	if out, err := exec.CommandContext(ctx, "go", "build", "-C", "..", "-o", binary, "./cmd/isr").CombinedOutput(); err != nil {
		return peer{}, fmt.Errorf("go build: %w\n%s", err, out)
	}
	address, err := freeAddress()
	if err != nil {
		return peer{}, err
	}
	return start(ctx, "isr", address, binary, "serve", "--origin", "http://"+origin, "--listen", address, "--data", filepath.Join(dir, "data"))
}

func startNginx(ctx context.Context, dir, origin string) (peer, error) {
	address, err := freeAddress()
	if err != nil {
		return peer{}, err
	}
	root := filepath.Join(dir, "nginx")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return peer{}, err
	}
	conf := filepath.Join(root, "nginx.conf")
	text := strings.NewReplacer("ROOT", root, "ADDRESS", address, "ORIGIN", origin).Replace(nginxConf)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return peer{}, err
	}
	return start(ctx, "nginx", address, "nginx", "-p", root, "-c", conf)
}

// nginxConf tunes nginx for this load: no logs, sendfile, and a cache on a local disk
// that the kernel keeps in its page cache.
const nginxConf = `
daemon off;
user root;
pid ROOT/nginx.pid;
error_log stderr error;
worker_processes auto;
events { worker_connections 4096; }
http {
  access_log off;
  sendfile on;
  tcp_nopush on;
  tcp_nodelay on;
  keepalive_requests 1000000;
  open_file_cache max=1000;
  client_body_temp_path ROOT/body;
  fastcgi_temp_path ROOT/fastcgi;
  uwsgi_temp_path ROOT/uwsgi;
  scgi_temp_path ROOT/scgi;
  proxy_temp_path ROOT/proxy;
  proxy_cache_path ROOT/cache keys_zone=pages:10m;
  server {
    listen ADDRESS;
    location / {
      proxy_pass http://ORIGIN;
      proxy_cache pages;
      proxy_cache_lock on;
      add_header X-Cache-Status $upstream_cache_status;
    }
  }
}
`

func startBare(ctx context.Context, _, _ string) (peer, error) {
	self, err := os.Executable()
	if err != nil {
		return peer{}, err
	}
	address, err := freeAddress()
	if err != nil {
		return peer{}, err
	}
	p, err := start(ctx, "bare net/http", address, self, "-bare", address)
	return p, errors.Join(err)
}
