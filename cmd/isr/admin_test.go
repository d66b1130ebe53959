package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/facetheory/isr/cmd/isr/server"
)

// setToken sets ISR_ADMIN_TOKEN from a file:
//
//	tokenfrom FILE
func setToken(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: tokenfrom FILE")
	}
	ts.Setenv(server.TokenVariable, strings.TrimSpace(ts.ReadFile(args[0])))
}

// fetchFrom prints the status and body of the response to a web page:
//
//	origin ORIGIN URL
func fetchFrom(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: origin ORIGIN URL")
	}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, args[1], http.NoBody)
	ts.Check(err)
	req.Header.Set("Origin", args[0])
	res, err := http.DefaultClient.Do(req)
	ts.Check(err)
	body, err := io.ReadAll(res.Body)
	ts.Check(err)
	ts.Check(res.Body.Close())
	_, err = fmt.Fprintf(ts.Stdout(), "%d\n%s", res.StatusCode, body)
	ts.Check(err)
}

// hangingKey is the key of a script's channel of hanging requests.
type hangingKey struct{}

// hangUp starts a site that never responds:
//
//	hang ADDRESS
func hangUp(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: hang ADDRESS")
	}
	listener, err := net.Listen("tcp", args[0])
	ts.Check(err)
	asked := ts.Value(hangingKey{}).(chan net.Conn)
	ctx, cancel := context.WithCancel(context.Background())
	ts.Defer(func() {
		cancel()
		_ = listener.Close()
	})
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the end of the script
			}
			context.AfterFunc(ctx, func() { _ = conn.Close() })
			if _, err := conn.Read(make([]byte, 1)); err != nil {
				continue // a probe of warnOfOrigin
			}
			select {
			case asked <- conn:
			case <-ctx.Done():
			}
		}
	}()
}

// awaitHanging waits for the next hanging request.
func awaitHanging(ts *testscript.TestScript, _ bool, _ []string) {
	select {
	case <-ts.Value(hangingKey{}).(chan net.Conn):
	case <-time.After(scriptPatience):
		ts.Fatalf("the site was not asked")
	}
}
