package site

import (
	"net"
	"net/http"
	"time"
)

// Serve serves an origin on a free address until it is closed.
func Serve(origin http.Handler) (*http.Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Addr: listener.Addr().String(), Handler: origin, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // ends with Close
	return server, nil
}
