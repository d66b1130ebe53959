package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/guregu/dynamo/v2/dynamodbiface"
)

// api is the client of all sides.
type api = dynamodbiface.DynamoDBAPI

const itemsOfQuery = 100

// sdkStub returns a client of the SDK with constant responses instead of a network.
func sdkStub() api {
	var items []string
	for number := range itemsOfQuery {
		items = append(items, metadataJSON(number))
	}
	all := responses{
		"GetItem": []byte(`{"Item":` + metadataJSON(0) + `}`),
		"PutItem": []byte(`{}`),
		"Query":   fmt.Appendf(nil, `{"Count":%d,"ScannedCount":%d,"Items":[%s]}`, itemsOfQuery, itemsOfQuery, strings.Join(items, ",")),
	}
	return dynamodb.New(dynamodb.Options{
		Region:       "us-east-1",
		Credentials:  credentials.NewStaticCredentialsProvider("mapper", "mapper", ""),
		HTTPClient:   &http.Client{Transport: all},
		BaseEndpoint: aws.String("http://dynamodb.invalid"),
	})
}

func metadataJSON(number int) string {
	m := newMetadata(number)
	return fmt.Sprintf(`{"pk":{"S":%q},"sk":{"S":%q},"s3_key":{"S":%q},"generated_at":{"N":"%d"},"revalidate_seconds":{"N":"%d"},"etag":{"S":%q},"ttl":{"N":"%d"}}`,
		m.PK, m.SK, m.S3Key, m.GeneratedAt, m.RevalidateSeconds, m.ETag, m.TTL)
}

// responses are JSON bodies by operation.
type responses map[string][]byte

// RoundTrip returns the response to a request.
func (a responses) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	body, ok := a[operation]
	if !ok {
		return nil, fmt.Errorf("no response to %q", operation)
	}
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header:        http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
	}, nil
}

// bareStub is a client without the SDK. Methods that are not measured panic: they are
// the methods of a nil interface.
type bareStub struct {
	api
	got     *dynamodb.GetItemOutput
	queried *dynamodb.QueryOutput
}

// newBareStub returns a stub; its responses are shared and must not be changed.
func newBareStub() bareStub {
	queried := &dynamodb.QueryOutput{Count: itemsOfQuery, ScannedCount: itemsOfQuery}
	for number := range itemsOfQuery {
		m := newMetadata(number)
		queried.Items = append(queried.Items, metadataItem(&m))
	}
	return bareStub{got: &dynamodb.GetItemOutput{Item: queried.Items[0]}, queried: queried}
}

func (s bareStub) GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return s.got, nil
}

func (bareStub) PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	return &dynamodb.PutItemOutput{}, nil
}

func (s bareStub) Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	return s.queried, nil
}
