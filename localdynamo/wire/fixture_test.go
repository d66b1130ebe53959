package wire_test

import (
	"context"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/localdynamo/wire"
)

type item = map[string]types.AttributeValue

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func num(s string) types.AttributeValue { return &types.AttributeValueMemberN{Value: s} }

var things = aws.String("things")

// newHandler returns a handler for an in-memory engine with the table "things", whose key
// is the string pk. The test ends with Check.
func newHandler(t testing.TB, config wire.Config) *wire.Handler {
	t.Helper()
	db := localdynamo.OpenMemory(localdynamo.Options{SweepInterval: -1})
	t.Cleanup(func() {
		if err := db.Check(context.Background()); err != nil { // t.Context() is canceled by now
			t.Errorf("check: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	_, err := db.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName:            things,
		BillingMode:          types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS}},
	})
	if err != nil {
		t.Fatal(err)
	}
	h, err := wire.New(db, config)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

const unsignedHeader = "AWS4-HMAC-SHA256 Credential=anyone/20260102/us-east-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-date, Signature=00"

// request returns a well-formed request without a valid signature.
func request(operation string, body io.Reader) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "http://localhost:8000/", body)
	r.Header.Set("X-Amz-Target", "DynamoDB_20120810."+operation)
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("Authorization", unsignedHeader)
	r.Header.Set("X-Amz-Date", "20260102T030405Z")
	return r
}

// send returns the response to r and checks the headers that every response has.
func send(t testing.TB, h http.Handler, r *http.Request) (int, http.Header, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	body := w.Body.Bytes()
	if got, want := w.Header().Get("x-amz-crc32"), strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 10); got != want {
		t.Errorf("x-amz-crc32 is %q, want %s", got, want)
	}
	if got := w.Header().Get("Content-Length"); got != strconv.Itoa(len(body)) {
		t.Errorf("Content-Length is %q, want %d", got, len(body))
	}
	if got := w.Header().Get("x-amzn-RequestId"); !regexp.MustCompile(`^[A-Z0-9]{52}$`).MatchString(got) {
		t.Errorf("x-amzn-RequestId is %q", got)
	}
	return w.Code, w.Header(), string(body)
}

// ask sends a request and returns the status and body of the response.
func ask(t testing.TB, h http.Handler, operation, body string) (int, string) {
	t.Helper()
	status, header, response := send(t, h, request(operation, strings.NewReader(body)))
	if got := header.Get("Content-Type"); got != "application/x-amz-json-1.0" {
		t.Errorf("Content-Type is %q", got)
	}
	return status, response
}

// serve starts a server for h and returns its URL.
func serve(t testing.TB, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

// newClient returns an SDK client that uses a real connection and does not retry.
func newClient(url, accessKey, secretKey string) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region:       "eu-central-1",
		BaseEndpoint: &url,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: accessKey, SecretAccessKey: secretKey}, nil
		}),
		RetryMaxAttempts: 1,
	})
}

func put(t testing.TB, client *dynamodb.Client, it item) {
	t.Helper()
	if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: things, Item: it}); err != nil {
		t.Fatal(err)
	}
}
