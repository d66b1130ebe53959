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

// api is a client that all sides take.
type api = dynamodbiface.DynamoDBAPI

const itemsOfQuery = 100

// sdkStub is a client of the SDK that never gets as far as the network.
func sdkStub() api {
	var items []string
	for number := range itemsOfQuery {
		items = append(items, metadataJSON(number))
	}
	answers := answers{
		"GetItem": []byte(`{"Item":` + metadataJSON(0) + `}`),
		"PutItem": []byte(`{}`),
		"Query":   fmt.Appendf(nil, `{"Count":%d,"ScannedCount":%d,"Items":[%s]}`, itemsOfQuery, itemsOfQuery, strings.Join(items, ",")),
	}
	return dynamodb.New(dynamodb.Options{
		Region:       "us-east-1",
		Credentials:  credentials.NewStaticCredentialsProvider("mapper", "mapper", ""),
		HTTPClient:   &http.Client{Transport: answers},
		BaseEndpoint: aws.String("http://dynamodb.invalid"),
	})
}

func metadataJSON(number int) string {
	m := newMetadata(number)
	return fmt.Sprintf(`{"pk":{"S":%q},"sk":{"S":%q},"s3_key":{"S":%q},"generated_at":{"N":"%d"},"revalidate_seconds":{"N":"%d"},"etag":{"S":%q},"ttl":{"N":"%d"}}`,
		m.PK, m.SK, m.S3Key, m.GeneratedAt, m.RevalidateSeconds, m.ETag, m.TTL)
}

// answers are constant answers to operations.
type answers map[string][]byte

// RoundTrip answers a request.
func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil, err
	}
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	body, ok := a[operation]
	if !ok {
		return nil, fmt.Errorf("there is no answer to %q", operation)
	}
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header:        http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
	}, nil
}

// bareStub is a client without an SDK below it. The methods that are not
// measured are those of a nil interface.
type bareStub struct {
	api
	got     *dynamodb.GetItemOutput
	queried *dynamodb.QueryOutput
}

// newBareStub makes its answers, which nobody may change.
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
