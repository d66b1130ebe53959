package main

import (
	"context"
	"net/http"

	"github.com/facetheory/isr/bench/internal/peer"
	"github.com/facetheory/isr/internal/conformance"
)

// peers returns the caches that the suite starts: isr with its defaults and with a configuration that
// fits the suite, the others with what makes them cache.
func peers() []peer.Peer {
	return []peer.Peer{
		peer.ISR("isr"),
		peer.ISRFile("isr, fitting", isrConfig),
		peer.Nginx("events { worker_connections 1024; }", "proxy_cache_path DIR/cache keys_zone=pages:10m;", nginxServer),
		peer.Varnish("", "-s", "malloc,64m", "-p", "default_grace=0"),
		// The defaults: a response needs Last-Modified, Expires or Cache-Control.
		peer.TrafficServer("64M", "", ""),
	}
}

// isrConfig fits the suite: it declares what the cases vary on, and chooses what the
// specifications leave open.
const isrConfig = `
listen: [{address: ADDRESS}]
origins: {site: {url: "http://ORIGIN"}}
store: {data: DIR/data}
admin: {address: none}
defaults:
  headers: [Foo, Bar]
  query: [a]
  statuses: [299, 400, 405, 414, 499, 500, 501, 502, 503, 504, 599]
  request_directives: obey
routes:
  - match: /
`

const nginxServer = `
    listen ADDRESS;
    location / {
      proxy_pass http://ORIGIN;
      proxy_http_version 1.1;
      proxy_cache pages;
      proxy_cache_revalidate on;
    }
`

// test starts a cache and runs the cases against it.
func test(ctx context.Context, p peer.Peer, at peer.Place, suite *conformance.Suite, cases []conformance.Case) ([]conformance.Result, error) {
	server, err := p.Start(ctx, at, "/", http.StatusNoContent)
	if err != nil {
		return nil, err
	}
	defer func() { _ = server.Stop() }()
	return suite.Run(ctx, server.URL, cases), nil
}
