package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/facetheory/isr/internal/http3"
	"github.com/facetheory/isr/internal/httpconn"
)

const (
	// announcedFor is how many seconds visitors remember that a listener serves HTTP/3.
	announcedFor = 24 * 60 * 60
	// idleTime3 is how long a connection of HTTP/3 without a request stays open. A new one costs a visitor who comes back no round trip.
	idleTime3 = 30 * time.Second
)

// altSvc returns the Alt-Svc of the responses of a listener; empty if it has no HTTP/3.
func (l *publicListener) altSvc() string {
	if !l.cfg.HTTP3 {
		return ""
	}
	return fmt.Sprintf(`h3=":%d"; ma=%d`, cmp.Or(l.cfg.HTTP3Port, portOf(l.inner.Addr())), announcedFor)
}

// startHTTP3 begins to serve HTTP/3, if the listener does. A failure is logged: visitors then use TCP.
func (l *publicListener) startHTTP3(p *public) {
	if l.udp == nil {
		return
	}
	clientTimeout := l.common.ClientTimeout
	site := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*l.handler.Load()).ServeHTTP(w, r) })
	var err error
	l.http3, err = l.udp.Serve(http3.Config{
		TLS: l.tlsConfig([]string{"h3"}), Handler: httpconn.LimitStreams(site, clientTimeout), Context: l.common.Context,
		Peer: http3.Peer(peerOf(l.cfg)), Limits: p.limits3, Requests: &p.visits3,
		HeaderBytes: headerBytes, HeaderTime: headerTime, IdleTime: idleTime3,
		Streams: maxStreams, StreamWindow: streamWindow, ConnectionWindow: connectionWindow, Log: p.log,
	})
	if err != nil {
		p.log.Error("HTTP/3 is not served", "listener", l.cfg.Address, "error", err)
	}
}

// stopHTTP3 returns a function that stops HTTP/3, if the listener serves it, and lets requests in flight finish until ctx is done.
func (l *publicListener) stopHTTP3(ctx context.Context) func() {
	return func() {
		if l.http3 != nil {
			l.http3.Stop(ctx)
		}
		if l.udp != nil {
			l.udp.Release()
		}
	}
}

// http3Counts are what HTTP/3 is used for.
func (p *public) http3Counts() (open int, refused, requests int64) {
	open, refused = p.limits3.Count()
	return open, refused, p.visits3.Load()
}
