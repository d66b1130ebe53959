package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/rogpeppe/go-internal/testscript"
)

// callDynamoDB sends a request as an SDK does, and prints the status and the body
// of the answer, waiting for a server that is just starting:
//
//	dynamodb [-key ID -secret SECRET] [-origin URL] ADDRESS OPERATION BODY
func callDynamoDB(ts *testscript.TestScript, _ bool, args []string) {
	c := parseCall(ts, args)
	var res *http.Response
	until(ts, "dynamodb "+c.address, func(ctx context.Context) error {
		req, err := c.request(ctx, bytes.NewReader(c.body))
		ts.Check(err)
		res, err = http.DefaultClient.Do(req)
		return err
	})
	printAnswer(ts, res)
}

// A call is a request of a script.
type call struct {
	address, operation, key, secret, origin string
	body                                    []byte
}

func parseCall(ts *testscript.TestScript, args []string) call {
	var c call
	flags := flag.NewFlagSet("dynamodb", flag.ContinueOnError)
	flags.StringVar(&c.key, "key", "any", "access key")
	flags.StringVar(&c.secret, "secret", "anything", "secret key")
	flags.StringVar(&c.origin, "origin", "", "origin of the page that sends it")
	ts.Check(flags.Parse(args))
	if flags.NArg() != 3 {
		ts.Fatalf("usage: dynamodb [-key ID -secret SECRET] [-origin URL] ADDRESS OPERATION BODY")
	}
	c.address, c.operation, c.body = flags.Arg(0), flags.Arg(1), []byte(flags.Arg(2))
	return c
}

// request is the call, signed.
func (c call) request(ctx context.Context, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.address+"/", body)
	if err != nil {
		return nil, err
	}
	req.ContentLength = int64(len(c.body))
	req.Header.Set("Content-Type", "application/x-amz-json-1.0")
	req.Header.Set("X-Amz-Target", "DynamoDB_20120810."+c.operation)
	if c.origin != "" {
		req.Header.Set("Origin", c.origin)
	}
	sum := sha256.Sum256(c.body)
	credentials := aws.Credentials{AccessKeyID: c.key, SecretAccessKey: c.secret}
	return req, v4.NewSigner().SignHTTP(ctx, credentials, req, hex.EncodeToString(sum[:]), "dynamodb", "us-east-1", time.Now())
}

func printAnswer(ts *testscript.TestScript, res *http.Response) {
	body, err := io.ReadAll(res.Body)
	ts.Check(err)
	ts.Check(res.Body.Close())
	_, err = fmt.Fprintf(ts.Stdout(), "%d\n%s\n", res.StatusCode, body)
	ts.Check(err)
}

// A pending call has reached the server, except for its body.
type pending struct {
	body   []byte
	asked  chan struct{} // closed when the server has asked for the body
	ask    sync.Once
	send   chan struct{} // closed when the body may go
	answer chan *http.Response
	failed chan error
}

func (p *pending) Read(b []byte) (int, error) {
	p.ask.Do(func() { close(p.asked) })
	<-p.send
	n := copy(b, p.body)
	p.body = p.body[n:]
	if len(p.body) == 0 {
		return n, io.EOF
	}
	return n, nil
}

// beginCall sends a request as dynamodb does, all but its body, and ends when the
// server waits for that. A script has at most one such call at a time.
func beginCall(ts *testscript.TestScript, _ bool, args []string) {
	c := parseCall(ts, args)
	p := &pending{body: c.body, asked: make(chan struct{}), send: make(chan struct{}), answer: make(chan *http.Response, 1), failed: make(chan error, 1)}
	ctx, cancel := context.WithTimeout(context.Background(), scriptPatience)
	ts.Defer(cancel)
	req, err := c.request(ctx, p)
	ts.Check(err)
	req.Header.Set("Expect", "100-continue") // send the body when the server reads it
	client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: scriptPatience}}
	go func() {
		res, err := client.Do(req)
		if err != nil {
			p.failed <- err
			return
		}
		p.answer <- res
	}()
	select {
	case <-p.asked:
	case res := <-p.answer:
		ts.Fatalf("the call was answered without its body: %s", res.Status)
	case err := <-p.failed:
		ts.Fatalf("the call failed: %v", err)
	}
	*ts.Value(pendingKey{}).(**pending) = p
}

// pendingKey is the key of the script's value that holds the pending call.
type pendingKey struct{}

// finishCall sends the body of the pending call, and prints the answer.
func finishCall(ts *testscript.TestScript, _ bool, _ []string) {
	p := *ts.Value(pendingKey{}).(**pending)
	if p == nil {
		ts.Fatalf("no call has begun")
	}
	close(p.send)
	select {
	case res := <-p.answer:
		printAnswer(ts, res)
	case err := <-p.failed:
		ts.Fatalf("the call failed: %v", err)
	}
}

// gone ADDRESS waits until connections are refused.
func gone(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: gone ADDRESS")
	}
	until(ts, "gone "+args[0], func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", args[0])
		if err != nil {
			return nil
		}
		return errors.Join(errors.New("still listening"), conn.Close())
	})
}
