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

// anyCredentials are accepted by every server that is measured.
var anyCredentials = credentials.NewStaticCredentialsProvider("bench", "bench", "")

// callTimeout limits one call through the SDK, and the lifetime of a raw connection.
const callTimeout = time.Minute

// clientOptions configures a client for load: one idle connection per worker, and no
// retries, which would hide failures.
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

// wholeBodies replaces request bodies with in-memory ones, which net/http sends in one
// piece with the headers. It sends the SDK's own bodies after the headers, and the SDK
// closes them when the response arrives. If that happens before net/http has read the
// end of the body, it treats the body as broken and drops the connection, sometimes in
// the middle of the response (aws-sdk-go-v2 issues 1825 and 2737). Fast servers suffer
// most.
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
