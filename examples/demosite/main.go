// Demosite serves the demonstration site on its own, without a cache in front
// of it, so that the difference can be felt:
//
//	go run ./examples/demosite
//	isr serve --origin http://127.0.0.1:3000 --query page
//
// The first address renders every page for a second, every time; the second,
// http://127.0.0.1:8080, only when it must. The site itself is package site.
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
	delay := flag.Duration("delay", site.DefaultDelay, "how long a page takes to render")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *listen, *delay); err != nil {
		fmt.Fprintln(os.Stderr, "demosite:", err)
		os.Exit(1)
	}
}

// serve runs the site on the address until ctx ends, then lets the pages in
// hand finish.
func serve(ctx context.Context, address string, delay time.Duration) error {
	if delay <= 0 {
		delay = site.NoDelay
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Printf("demosite: http://%s (every page takes %v; nothing is cached here)\n", l.Addr(), max(delay, 0))

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
