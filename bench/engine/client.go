package main

import (
	"bytes"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

const region = "us-east-1"

// anyCredentials are as good as any others.
var anyCredentials = credentials.NewStaticCredentialsProvider("bench", "bench", "")

// callTimeout bounds one call, and how long a bare connection is used.
const callTimeout = time.Minute

// clientOptions are those of a program that calls a lot: connections enough to
// keep one for each worker, and no second try that would hide a failure.
func clientOptions(address string) dynamodb.Options {
	return dynamodb.Options{
		Region:       region,
		BaseEndpoint: aws.String("http://" + address),
		Credentials:  anyCredentials,
		Retryer:      aws.NopRetryer{},
		HTTPClient: wholeBodies{&http.Client{
			Transport: &http.Transport{MaxIdleConns: 256, MaxIdleConnsPerHost: 256, IdleConnTimeout: time.Minute, DisableCompression: true},
			Timeout:   callTimeout,
		}},
	}
}

// wholeBodies gives net/http bodies that it knows to be in memory, which it
// sends in one piece with the headers. The SDK's own bodies it sends after them,
// and the SDK closes those as soon as there is an answer: when that comes before
// net/http has looked for the end of the body, it takes the body for broken and
// drops the connection, at times amid the answer (aws-sdk-go-v2 issues 1825,
// 2737). The faster a server, the more often that happens to it.
type wholeBodies struct{ *http.Client }

// Do sends the request.
func (c wholeBodies) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return c.Client.Do(r)
}
