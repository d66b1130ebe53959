// Demosite serves the demonstration site as an origin, to compare it with and without a
// cache:
//
//	go run ./examples/demosite
//	isr serve --origin http://127.0.0.1:3000 --query page
//
// The origin, http://127.0.0.1:3000, takes a second to render every request. The cache,
// http://127.0.0.1:8080, renders a page only when it has to. The site is in package site.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/facetheory/isr/examples/demosite/site"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:3000", "`address` to listen on")
	delay := flag.Duration("delay", site.DefaultDelay, "render time of a page; 0 disables the delay")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *listen, *delay); err != nil {
		fmt.Fprintln(os.Stderr, "demosite:", err)
		os.Exit(1)
	}
}

// serve serves the site at address until ctx is done. Requests in flight then have 5
// seconds to finish.
func serve(ctx context.Context, address string, delay time.Duration) error {
	if delay <= 0 {
		delay = site.NoDelay
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Printf("demosite: serving http://%s (render time %v, no cache)\n", l.Addr(), max(delay, 0))

	srv := &http.Server{
		Handler:           site.Handler(site.Config{Delay: delay}),
		ReadHeaderTimeout: 10 * time.Second,
	}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		stopped <- srv.Shutdown(grace)
	}()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}
