package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/gateway/admin"
	"github.com/facetheory/isr/internal/backup"
	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/localdynamo/wire"
)

type dynamodbCommand struct {
	Listen string `default:"127.0.0.1:8000" placeholder:"ADDR" help:"Address to listen on (${default})."`
	Data   string `default:"./isr-data" type:"path" placeholder:"DIR" help:"Folder of the tables; the data folder of an isr serve that is stopped also works (${default})."`
	Memory bool   `env:"-" help:"Keep the tables in memory, whatever --data is: they end with the process."`
	Fault  faults `env:"ISR_DYNAMODB_FAULT" placeholder:"KIND=SHARE" help:"Answer a share of the requests, like 0.05 or 5%, with an error of AWS, to test how programs meet it: throttle (ProvisionedThroughputExceededException), conflict (TransactionConflict) or unprocessed (items of batches). May be repeated."`

	dynamodbKeys `embed:""`
	logFlag      `embed:""`
}

func (c *dynamodbCommand) Help() string {
	return `Programs use it through any AWS SDK, with this endpoint and any region:

  AWS_ENDPOINT_URL_DYNAMODB=http://127.0.0.1:8000

Acknowledged writes are on disk, unless the tables are in memory (--memory).`
}

func (c *dynamodbCommand) Run(ctx context.Context, s *streams) (err error) {
	if c.Data == "" && !c.Memory {
		return usagef("--data is empty; expected a folder, as in --data ./isr-data")
	}
	if err := c.validate("--listen", c.Listen); err != nil {
		return err
	}
	log := c.logger(s)
	if len(c.Fault) > 0 {
		log.Warn("answering some requests with errors, as --fault wants", "fault", c.Fault.String())
	}
	hangups, stop := catchHangups()
	defer stop()
	defer hangups.each(ctx, func() { log.Info("SIGHUP has reloaded nothing: isr dynamodb has no configuration file") })()
	if c.Memory {
		db := localdynamo.OpenMemory(localdynamo.Options{})
		defer func() { err = errors.Join(err, db.Close()) }()
		return c.run(ctx, db, "memory", log)
	}
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
	defer keepProcessors(ctx, db)()
	socket, err := listenSocket(folder, backup.Source{DB: db, Folder: true}.Before(refuseCommands(c.Data)), log)
	if err != nil {
		return err
	}
	defer socket.stop(ctx, log)
	return c.run(ctx, db, c.Data, log)
}

// run serves the engine until ctx is done. data is where the tables are.
func (c *dynamodbCommand) run(ctx context.Context, db *localdynamo.DB, data string, log *slog.Logger) error {
	relaxCollector()
	server, err := c.serve("--listen", c.Listen, db, c.Fault.interceptor(), log.With("data", data))
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

// refuseCommands answers commands that ask the server of a site: none is served from the folder.
func refuseCommands(dir string) http.Handler {
	answer := map[string]any{"error": admin.Error{
		Code: "no_site", Message: fmt.Sprintf("data folder %s is used by another isr process", dir), Hint: "stop it, or give another folder with --data",
	}}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(answer)
	})
}

// dynamodbKeys are the credentials that clients of the DynamoDB endpoint need. Without
// them the endpoint accepts loopback addresses only.
type dynamodbKeys struct {
	AccessKey string `env:"ISR_DYNAMODB_ACCESS_KEY" placeholder:"ID" help:"Accept only this access key, and verify signatures. Without it any credentials are accepted, from this machine only."`
	SecretKey string `env:"ISR_DYNAMODB_SECRET_KEY" placeholder:"SECRET" help:"Secret of the access key; better set in the environment, since other users can read command lines."`
}

// requestTime bounds reading a request: the largest body, 16 MiB, at 60 KB/s. Writing the
// response may take as long again.
const requestTime = 5 * time.Minute

// validate checks the keys, and the address that a flag gives.
func (k dynamodbKeys) validate(flag, address string) error {
	if (k.AccessKey == "") != (k.SecretKey == "") {
		return usagef("an access key needs a secret key, and vice versa; set both ISR_DYNAMODB_ACCESS_KEY and ISR_DYNAMODB_SECRET_KEY, or neither")
	}
	_, err := k.resolve(flag, address)
	return err
}

// resolve returns an error for an address that other machines could reach without keys.
// Callers must listen on the address that it returns: a name could resolve differently the
// next time.
func (k dynamodbKeys) resolve(flag, address string) (*net.TCPAddr, error) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, usagef("%s %q is not an address; expected host:port, like 127.0.0.1:8000", flag, address)
	}
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, usagef("%s %q does not resolve: %v; expected host:port, like 127.0.0.1:8000", flag, address, err)
	}
	if k.AccessKey == "" && !at.IP.IsLoopback() {
		return nil, usagef("%s %s would accept other machines with any credentials; listen on 127.0.0.1:%d, or set ISR_DYNAMODB_ACCESS_KEY and ISR_DYNAMODB_SECRET_KEY",
			flag, address, at.Port)
	}
	return at, nil
}

// serve serves the engine, and logs how clients reach it. intercept may be nil.
func (k dynamodbKeys) serve(flag, address string, db *localdynamo.DB, intercept wire.Interceptor, log *slog.Logger) (*running, error) {
	at, err := k.resolve(flag, address)
	if err != nil {
		return nil, err
	}
	handler, err := wire.New(db, wire.Config{AccessKey: k.AccessKey, SecretKey: k.SecretKey, Logger: log, Intercept: intercept})
	if err != nil {
		return nil, err
	}
	listener, err := net.ListenTCP("tcp", at)
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
