package server

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/handover"
	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/localdynamo/wire"
)

// DynamodbKeys are the credentials that clients of the DynamoDB endpoint need. Without
// them the endpoint accepts loopback addresses only.
type DynamodbKeys struct {
	AccessKey string `env:"ISR_DYNAMODB_ACCESS_KEY" placeholder:"ID" help:"Accept only this access key, and verify signatures. Without it any credentials are accepted, from this machine only."`
	SecretKey string `env:"ISR_DYNAMODB_SECRET_KEY" placeholder:"SECRET" help:"Secret of the access key; better set in the environment, since other users can read command lines."`
}

// requestTime bounds reading a request: the largest body, 16 MiB, at 60 KB/s. Writing the
// response may take as long again.
const requestTime = 5 * time.Minute

// Validate checks the keys, and the address that a flag gives.
func (k DynamodbKeys) Validate(flag, address string) error {
	if (k.AccessKey == "") != (k.SecretKey == "") {
		return cli.Usagef("an access key needs a secret key, and vice versa; set both ISR_DYNAMODB_ACCESS_KEY and ISR_DYNAMODB_SECRET_KEY, or neither")
	}
	_, err := k.resolve(flag, address)
	return err
}

// resolve returns an error for an address that other machines could reach without keys.
// Callers must listen on the address that it returns: a name could resolve differently the
// next time.
func (k DynamodbKeys) resolve(flag, address string) (*net.TCPAddr, error) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, cli.Usagef("%s %q is not an address; expected host:port, like 127.0.0.1:8000", flag, address)
	}
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, cli.Usagef("%s %q does not resolve: %v; expected host:port, like 127.0.0.1:8000", flag, address, err)
	}
	if k.AccessKey == "" && !at.IP.IsLoopback() {
		return nil, cli.Usagef("%s %s would accept other machines with any credentials; listen on 127.0.0.1:%d, or set ISR_DYNAMODB_ACCESS_KEY and ISR_DYNAMODB_SECRET_KEY",
			flag, address, at.Port)
	}
	return at, nil
}

// Serve serves the engine, and logs how clients reach it. intercept may be nil.
func (k DynamodbKeys) Serve(ctx context.Context, sockets *handover.Sockets, flag, address string, db *localdynamo.DB, intercept wire.Interceptor, log *slog.Logger) (*Running, error) {
	at, err := k.resolve(flag, address)
	if err != nil {
		return nil, err
	}
	handler, err := wire.New(db, wire.Config{AccessKey: k.AccessKey, SecretKey: k.SecretKey, Logger: log, Intercept: intercept})
	if err != nil {
		return nil, err
	}
	listener, _, err := sockets.Listen(ctx, at.String())
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w; give another address with %s", address, err, flag)
	}
	server, credentials := newServer(handler, log), "access key "+k.AccessKey
	if k.AccessKey == "" {
		server.Handler, credentials = refuseWebPages(handler), "any"
	}
	server.ReadTimeout, server.WriteTimeout = requestTime, 2*requestTime // both count from the header
	url := "http://" + displayAddress(listener.Addr())
	log.Info("serving DynamoDB on "+url, "environment", "AWS_ENDPOINT_URL_DYNAMODB="+url, "region", "any", "credentials", credentials)
	return start(server, listener), nil
}

// refuseWebPages refuses requests of web pages, which have Origin or Sec-Fetch-Site (no
// AWS SDK sends them), and requests whose Host is not a loopback name. Otherwise any web
// page could use tables without credentials by DNS rebinding. The port of the Host may be
// any: it is another one behind an SSH tunnel or a published port of a container, and a
// page that rebinds a name has its own name in Host.
func refuseWebPages(h http.Handler) http.Handler {
	local := gateway.LoopbackHosts()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		site := r.Header.Get("Sec-Fetch-Site")
		if r.Header.Get("Origin") != "" || site == "cross-site" || site == "same-site" {
			denyAccess(w, "isr: web pages may not use tables without credentials")
			return
		}
		if host, ok := canonical.Host(r.Host); !ok || !local.Serve(withoutPort(host)) {
			denyAccess(w, fmt.Sprintf("isr: tables without credentials are served to this machine only, got a request for the host %.100q; use the host 127.0.0.1 or localhost, or set ISR_DYNAMODB_ACCESS_KEY and ISR_DYNAMODB_SECRET_KEY", r.Host))
			return
		}
		h.ServeHTTP(w, r)
	})
}

// withoutPort removes the port of a canonical host.
func withoutPort(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}

// denyAccess answers as DynamoDB does, so that every SDK shows the reason.
func denyAccess(w http.ResponseWriter, reason string) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(http.StatusForbidden)
	_ = json.NewEncoder(w).Encode(map[string]string{"__type": "com.amazon.coral.service#AccessDeniedException", "message": reason})
}
