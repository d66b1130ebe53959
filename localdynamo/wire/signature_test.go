package wire_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"

	"github.com/facetheory/isr/localdynamo/wire"
)

func TestMalformedAuthorization(t *testing.T) {
	t.Parallel()
	h := newHandler(t, wire.Config{})
	const incomplete = `{"__type":"com.amazon.coral.service#IncompleteSignatureException","message":"`
	for _, test := range []struct{ authorization, date, want string }{
		{"", "", `{"__type":"com.amazon.coral.service#MissingAuthenticationTokenException","message":"Request is missing Authentication Token"}`},
		{"Basic YTpi", "20260102T030405Z", `{"__type":"com.amazon.coral.service#MissingAuthenticationTokenException"`},
		{"AWS4-", "", incomplete + `Authorization header requires 'Credential' parameter. Authorization header requires 'Signature' parameter. ` +
			`Authorization header requires 'SignedHeaders' parameter. Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header. Authorization=AWS4-"}`},
		{strings.Replace(unsignedHeader, "SignedHeaders", "Signed", 1), "20260102T030405Z", incomplete + `Authorization header requires 'SignedHeaders' parameter. Authorization=`},
		{unsignedHeader, "", incomplete + `Authorization header requires existence of either`},
		{strings.Replace(unsignedHeader, "SHA256", "SHA1", 1), "20260102T030405Z", incomplete + `Unsupported AWS 'algorithm': 'AWS4-HMAC-SHA1'`},
		{strings.Replace(unsignedHeader, "/dynamodb", "", 1), "20260102T030405Z", incomplete + `Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term, got 'anyone/20260102/us-east-1/aws4_request'"}`},
	} {
		r := request("DescribeTable", strings.NewReader(`{"TableName":"things"}`))
		r.Header.Set("Authorization", test.authorization)
		r.Header.Set("X-Amz-Date", test.date)
		if status, _, got := send(t, h, r); status != http.StatusBadRequest || !strings.HasPrefix(got, test.want) {
			t.Errorf("%q\ngot  %d %s\nwant %s", test.authorization, status, got, test.want)
		}
	}
}

func TestSignatureVerification(t *testing.T) {
	t.Parallel()
	var skew atomic.Int64
	url := serve(t, newHandler(t, wire.Config{AccessKey: "AK", SecretKey: "secret", Now: func() time.Time {
		return time.Now().Add(time.Duration(skew.Load()))
	}}))
	for _, test := range []struct {
		name, access, secret string
		skew                 time.Duration
		want                 string // "" is success
	}{
		{"valid", "AK", "secret", 0, ""},
		{"within the allowed skew", "AK", "secret", 14 * time.Minute, ""},
		{"wrong access key", "AL", "secret", 0, "UnrecognizedClientException"},
		{"wrong secret key", "AK", "Secret", 0, "InvalidSignatureException"},
		{"expired", "AK", "secret", 16 * time.Minute, "InvalidSignatureException"},
		{"not yet valid", "AK", "secret", -16 * time.Minute, "InvalidSignatureException"},
	} {
		skew.Store(int64(test.skew))
		client := newClient(url, test.access, test.secret)
		_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: things, Item: everyType()})
		code := ""
		var got smithy.APIError
		if errors.As(err, &got) {
			code = got.ErrorCode()
		}
		if code != test.want || (err == nil) != (test.want == "") {
			t.Errorf("%s: got %v, want %q", test.name, err, test.want)
		}
	}
}

// TestTamperedRequest modifies requests after signing.
func TestTamperedRequest(t *testing.T) {
	t.Parallel()
	h := newHandler(t, wire.Config{AccessKey: "AK", SecretKey: "secret"})
	for _, test := range []struct {
		name   string
		tamper func(*http.Request)
		want   int
	}{
		{"nothing", func(*http.Request) {}, http.StatusOK},
		{"an unsigned header", func(r *http.Request) { r.Header.Set("X-Forwarded-For", "me") }, http.StatusOK},
		{"the body", func(r *http.Request) { r.Body = body(`{"TableName":"thingS"}`) }, http.StatusBadRequest},
		{"the target", func(r *http.Request) { r.Header.Set("X-Amz-Target", "DynamoDB_20120810.DescribeTimeToLive") }, http.StatusBadRequest},
		{"the date", func(r *http.Request) {
			r.Header.Set("X-Amz-Date", time.Now().Add(-time.Second).UTC().Format("20060102T150405Z"))
		}, http.StatusBadRequest},
		{"the host", func(r *http.Request) { r.Host = "elsewhere" }, http.StatusBadRequest},
		{"the path", func(r *http.Request) { r.URL.Path = "/x" }, http.StatusBadRequest},
		{"the scope", func(r *http.Request) {
			r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), "/us-east-1/", "/us-east-2/", 1))
		}, http.StatusBadRequest},
		{"the service", func(r *http.Request) {
			r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), "/dynamodb/", "/s3/", 1))
		}, http.StatusBadRequest},
		{"no signature", func(r *http.Request) { r.Header.Del("Authorization") }, http.StatusBadRequest},
	} {
		r := signedRequest(t, `{"TableName":"things"}`)
		test.tamper(r)
		if status, _, got := send(t, h, r); status != test.want {
			t.Errorf("%s: got %d %s, want %d", test.name, status, got, test.want)
		}
	}
}
