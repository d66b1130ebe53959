package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/localdynamo/wire"
)

type dynamodbCommand struct {
	Listen string `default:"127.0.0.1:8000" placeholder:"ADDR" help:"Address to listen on (${default})."`
	Data   string `default:"./isr-data" type:"path" placeholder:"DIR" help:"Folder that keeps the tables (${default}); that of an isr serve that is not running has its table."`

	dynamodbKeys `embed:""`
	logFlag      `embed:""`
}

func (c *dynamodbCommand) Help() string {
	return `Programs in any language use it through their AWS SDK, with another endpoint and any region:

  AWS_ENDPOINT_URL_DYNAMODB=http://127.0.0.1:8000

What was acknowledged is on disk.`
}

func (c *dynamodbCommand) Run(ctx context.Context, s *streams) (err error) {
	if c.Data == "" {
		return usagef("--data is empty; expected a folder, as in --data ./isr-data")
	}
	if err := c.validate("--listen", c.Listen); err != nil {
		return err
	}
	log := c.logger(s)
	folder, err := claim(c.Data)
	if err != nil {
		return err
	}
	defer folder.release()
	db, err := openEngine(c.Data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	relaxCollector()
	server, err := c.serve("--listen", c.Listen, db, log.With("data", c.Data))
	if err != nil {
		return err
	}
	select {
	case err := <-server.failed:
		return fmt.Errorf("serving %s: %w", c.Listen, err)
	case <-ctx.Done():
	}
	log.Info("stopping", "grace", graceTime)
	grace, cancel := withGrace(ctx, graceTime)
	defer cancel()
	server.stop(grace, log)
	log.Info("stopped")
	return nil
}

// dynamodbKeys are the credentials that programs must have to use the engine over
// HTTP. Without them it is for this machine alone.
type dynamodbKeys struct {
	AccessKey string `env:"ISR_DYNAMODB_ACCESS_KEY" placeholder:"ID" help:"Accept this access key alone, and verify signatures. Without it any credentials do, and only this machine may connect."`
	SecretKey string `env:"ISR_DYNAMODB_SECRET_KEY" placeholder:"SECRET" help:"Secret of the access key; better given by the environment, as others can read command lines."`
}

// requestTime bounds how long the body of a request may take: 16 MiB, which is
// the largest, at 60 KB a second. The answer may take as long again.
const requestTime = 5 * time.Minute

// validate checks the address that a flag gives, and the keys.
func (k dynamodbKeys) validate(flag, address string) error {
	if (k.AccessKey == "") != (k.SecretKey == "") {
		return usagef("an access key and its secret go together; set ISR_DYNAMODB_ACCESS_KEY and ISR_DYNAMODB_SECRET_KEY, or neither of them")
	}
	_, err := k.resolve(flag, address)
	return err
}

// resolve refuses an address that would let other machines in without keys. Who
// listens does so at what it returns: the name might lead elsewhere the next time.
func (k dynamodbKeys) resolve(flag, address string) (*net.TCPAddr, error) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, usagef("%s %q is not an address; expected host:port, like 127.0.0.1:8000", flag, address)
	}
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, usagef("%s %q cannot be used: %v; expected host:port, like 127.0.0.1:8000", flag, address, err)
	}
	if k.AccessKey == "" && !at.IP.IsLoopback() {
		return nil, usagef("%s %s would let other machines in, with any credentials; listen on 127.0.0.1:%d, or set ISR_DYNAMODB_ACCESS_KEY and ISR_DYNAMODB_SECRET_KEY",
			flag, address, at.Port)
	}
	return at, nil
}

// serve serves the engine, and says on the log how to use it.
func (k dynamodbKeys) serve(flag, address string, db *localdynamo.DB, log *slog.Logger) (*running, error) {
	at, err := k.resolve(flag, address)
	if err != nil {
		return nil, err
	}
	handler, err := wire.New(db, wire.Config{AccessKey: k.AccessKey, SecretKey: k.SecretKey, Logger: log})
	if err != nil {
		return nil, err
	}
	listener, err := net.ListenTCP("tcp", at)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w; give another address with %s", address, err, flag)
	}
	server, credentials := newServer(handler, log), "those of "+k.AccessKey
	if k.AccessKey == "" {
		server.Handler, credentials = withoutBrowsers(handler, gateway.LoopbackHosts().WithListener(listener.Addr())), "any"
	}
	server.ReadTimeout, server.WriteTimeout = requestTime, 2*requestTime // both from the request's header on
	url := "http://" + displayAddress(listener.Addr())
	log.Info("serving DynamoDB on "+url, "environment", "AWS_ENDPOINT_URL_DYNAMODB="+url, "region", "any", "credentials", credentials)
	return start(server, listener), nil
}

// withoutBrowsers refuses what pages in a browser send, which names their origin or
// site, and no AWS SDK's requests do; and what is not addressed to this machine by a
// name of its own. A page from anywhere, whose name was made to lead to this machine
// (DNS rebinding), could otherwise use tables that ask for no credentials.
func withoutBrowsers(h http.Handler, hosts gateway.Hosts) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		site := r.Header.Get("Sec-Fetch-Site")
		if r.Header.Get("Origin") != "" || site == "cross-site" || site == "same-site" {
			http.Error(w, "isr: pages in a browser may not use tables that ask for no credentials", http.StatusForbidden)
			return
		}
		if host, ok := canonical.Host(r.Host); !ok || !hosts.Serve(host) {
			http.Error(w, "isr: tables that ask for no credentials are for this machine alone; ask for them as 127.0.0.1 or localhost", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}
