package wire_test

import (
	"bytes"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"

	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/localdynamo/wire"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	status, _, body := send(t, newHandler(t, wire.Config{}), httptest.NewRequest(http.MethodGet, "http://localhost:8000/", nil))
	if status != http.StatusOK || body != "healthy: localhost:8000 " {
		t.Errorf("got %d %q", status, body)
	}
}

func TestOtherMethodsAndContentTypes(t *testing.T) {
	t.Parallel()
	h := newHandler(t, wire.Config{})
	for _, change := range []func(*http.Request){
		func(r *http.Request) { r.Method = http.MethodPut },
		func(r *http.Request) { r.Method = http.MethodOptions },
		func(r *http.Request) { r.Header.Set("Content-Type", "text/json") },
		func(r *http.Request) { r.Header.Del("Content-Type") },
	} {
		r := request("GetItem", strings.NewReader("{}"))
		change(r)
		status, _, body := send(t, h, r)
		if status != http.StatusNotFound || body != "<UnknownOperationException/>\n" {
			t.Errorf("%s %q: got %d %q", r.Method, r.Header.Get("Content-Type"), status, body)
		}
	}
	for _, accepted := range []string{"application/json", "application/x-amz-json-1.0; charset=utf-8"} {
		r := request("DescribeTable", strings.NewReader(`{"TableName":"things"}`))
		r.Header.Set("Content-Type", accepted)
		if status, _, body := send(t, h, r); status != http.StatusOK {
			t.Errorf("%q: got %d %q", accepted, status, body)
		}
	}
}

func TestTarget(t *testing.T) {
	t.Parallel()
	h := newHandler(t, wire.Config{})
	for _, test := range []struct{ target, message string }{
		{"", "Unknown operation"},
		{"GetItem", "Unknown operation"},
		{"DynamoDB_20111205.GetItem", "Unknown operation"},
		{"DynamoDB_20120810.getItem", "Unknown operation"},
		{"DynamoDB_20120810.ExecuteStatement", "localdynamo does not implement DynamoDB_20120810.ExecuteStatement; its FIDELITY.md"},
		{"DynamoDBStreams_20120810.ListStreams", "localdynamo does not implement DynamoDBStreams_20120810.ListStreams; its FIDELITY.md"},
	} {
		r := request("", strings.NewReader("{}"))
		r.Header.Set("X-Amz-Target", test.target)
		status, _, body := send(t, h, r)
		if status != http.StatusBadRequest ||
			!strings.HasPrefix(body, `{"__type":"com.amazon.coral.service#UnknownOperationException","message":"`+test.message) {
			t.Errorf("%q: got %d %s", test.target, status, body)
		}
	}
}

const (
	serialization = `{"__type":"com.amazon.coral.service#SerializationException","Message":"`
	invalid       = `{"__type":"com.amazon.coral.validate#ValidationException","message":"`
)

// TestBodies checks the beginning of the response to each body. Messages that are AWS's
// are complete.
func TestBodies(t *testing.T) {
	t.Parallel()
	h := newHandler(t, wire.Config{})
	for _, test := range []struct{ operation, body, want string }{
		{"GetItem", ``, serialization},
		{"GetItem", `{`, serialization},
		{"GetItem", `{"TableName":"things",}`, serialization},
		{"GetItem", `{"TableName":"things"} x`, serialization},
		{"GetItem", `{"TableName":"thi` + "\xff" + `ngs"}`, serialization},
		{"GetItem", `[]`, serialization},
		{"GetItem", `null`, serialization},
		{"GetItem", `{"TableName":1}`, serialization + `NUMBER_VALUE cannot be converted to String"}`},
		{"GetItem", `{"TableName":1.5}`, serialization + `DECIMAL_VALUE cannot be converted to String"}`},
		{"GetItem", `{"TableName":true}`, serialization + `TRUE_VALUE cannot be converted to String"}`},
		{"GetItem", `{"TableName":[]}`, serialization + `Unrecognized collection type class java.lang.String"}`},
		{"GetItem", `{"TableName":{}}`, serialization + `Start of structure or map found where not expected"}`},
		{"GetItem", `{"ConsistentRead":"true"}`, serialization + `Unexpected token received from parser"}`},
		{"GetItem", `{"ConsistentRead":1}`, serialization + `NUMBER_VALUE cannot be converted to Boolean"}`},
		{"GetItem", `{"Key":"a"}`, serialization + `Unexpected field type"}`},
		{"GetItem", `{"Key":[]}`, serialization + `Unrecognized collection type java.util.Map<java.lang.String, com.amazonaws.dynamodb.v20120810.AttributeValue>"}`},
		{"GetItem", `{"Key":{"pk":"a"}}`, serialization + `Unexpected value type in payload"}`},
		{"GetItem", `{"Key":{"pk":[]}}`, serialization + `Unrecognized collection type class com.amazonaws.dynamodb.v20120810.AttributeValue"}`},
		{"GetItem", `{"Key":{"pk":{"S":1}}}`, serialization + `NUMBER_VALUE cannot be converted to String"}`},
		{"GetItem", `{"Key":{"pk":{"N":1}}}`, serialization + `NUMBER_VALUE cannot be converted to String"}`},
		{"GetItem", `{"Key":{"pk":{"B":1}}}`, serialization + `only base-64-encoded strings are convertible to bytes"}`},
		{"GetItem", `{"Key":{"pk":{"B":"abc"}}}`, serialization + `Base64 encoded length is expected a multiple of 4 bytes but found: 3"}`},
		{"GetItem", `{"Key":{"pk":{"B":"ab!="}}}`, serialization + `Invalid Base64`},
		{"GetItem", `{"Key":{"pk":{"B":"YWJ\n\n\n\n\n"}}}`, serialization + `Invalid Base64`},
		{"GetItem", `{"Key":{"pk":{"B":"YWK="}}}`, serialization + `Invalid Base64`}, // trailing bits
		{"GetItem", `{"Key":{"pk":{"SS":"a"}}}`, serialization + `Unexpected field type"}`},
		{"GetItem", `{"Key":{"pk":{"SS":[1]}}}`, serialization + `NUMBER_VALUE cannot be converted to String"}`},
		{"GetItem", `{"AttributesToGet":{}}`, serialization + `Start of structure or map found where not expected"}`},
		{"Query", `{"Limit":"1"}`, serialization + `STRING_VALUE cannot be converted to Integer"}`},
		{"Query", `{"Limit":2147483648}`, serialization + `Numeric value (2147483648) out of range of Integer"}`},
		{"TransactWriteItems", `{"TransactItems":[1]}`, serialization + `Unexpected value type in payload"}`},

		{"GetItem", `{"TableName":"things","Key":{"pk":{}}}`, invalid + `Supplied AttributeValue is empty, must contain exactly one of the supported datatypes"}`},
		{"GetItem", `{"TableName":"things","Key":{"pk":null}}`, invalid + `Supplied AttributeValue is empty`},
		{"GetItem", `{"TableName":"things","Key":{"pk":{"S":null}}}`, invalid + `Supplied AttributeValue is empty`},
		{"GetItem", `{"TableName":"things","Key":{"pk":{"X":{"S":"a"}}}}`, invalid + `Supplied AttributeValue is empty`},
		{"PutItem", `{"TableName":"things","Item":{"pk":{"S":"a"},"l":{"L":[null]}}}`, invalid + `Supplied AttributeValue is empty`},
		{"GetItem", `{"TableName":"things","Key":{"pk":{"S":"a","N":"1"}}}`, invalid + `Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes"}`},
		{"GetItem", `{"TableName":"things","Key":{"pk":{"S":"a","S":"b"}}}`, `{}`},
		{"GetItem", `{"TableName":"things","Key":{"pk":{"S":"a","N":null,"X":[{}]}},"Unknown":{"a":[1,{"b":null}]}}`, `{}`},
		{"GetItem", ` { "TableName" : "things" , "Key" : { "\u0070k" : { "S" : "\ud83d\ude00\n" } }, "AttributesToGet" : null } `, `{}`},
		{"DescribeTable", `{"TableName":"thing"}`, `{"__type":"com.amazonaws.dynamodb.v20120810#ResourceNotFoundException","message":"Requested resource not found`},
	} {
		status, got := ask(t, h, test.operation, test.body)
		want := http.StatusBadRequest
		if test.want == "{}" {
			want = http.StatusOK
		}
		if status != want || !strings.HasPrefix(got, test.want) {
			t.Errorf("%s %s\ngot  %d %s\nwant %d %s", test.operation, test.body, status, got, want, test.want)
		}
	}
}

// TestNesting: each depth of nesting gets the right kind of error.
func TestNesting(t *testing.T) {
	t.Parallel()
	h := newHandler(t, wire.Config{})
	nested := func(levels int) string {
		return `{"TableName":"things","Item":{"pk":{"S":"a"},"v":` + strings.Repeat(`{"L":[`, levels) + `{"S":"x"}` + strings.Repeat(`]}`, levels) + `}}`
	}
	for _, test := range []struct {
		levels int
		want   string
	}{
		{20, "{}"},
		{40, invalid + "1 validation error detected: Nesting Levels have exceeded supported limits"},
		{4_000, invalid + "Nesting Levels have exceeded supported limits"},
		{1_000_000, serialization},
	} {
		if _, got := ask(t, h, "PutItem", nested(test.levels)); !strings.HasPrefix(got, test.want) {
			t.Errorf("%d levels: got %.200s, want %s", test.levels, got, test.want)
		}
	}
	for _, body := range []string{strings.Repeat("[", 1_000_000), strings.Repeat(`{"a":`, 1_000_000), `{"Unknown":` + strings.Repeat("[", 1_000_000)} {
		if status, got := ask(t, h, "PutItem", body); status != http.StatusBadRequest || !strings.HasPrefix(got, serialization) {
			t.Errorf("%.20s…: got %d %.200s", body, status, got)
		}
	}
}

func TestRequiredMembers(t *testing.T) {
	t.Parallel()
	h := newHandler(t, wire.Config{})
	null := func(path string) string {
		return "Value null at '" + path + "' failed to satisfy constraint: Member must not be null"
	}
	for _, test := range []struct{ operation, body, want string }{
		{"GetItem", `{}`, "2 validation errors detected: " + null("key") + "; " + null("tableName")},
		{"GetItem", `{"TableName":null,"Key":{}}`, "1 validation error detected: " + null("tableName")},
		{"PutItem", `{"TableName":"things"}`, "1 validation error detected: " + null("item")},
		{"TransactWriteItems", `{}`, "1 validation error detected: " + null("transactItems")},
		{"TransactWriteItems", `{"TransactItems":[{"Put":{}},{"Delete":{"Key":{}}}]}`, "3 validation errors detected: " +
			null("transactItems.1.member.put.item") + "; " + null("transactItems.1.member.put.tableName") + "; " + null("transactItems.2.member.delete.tableName")},
		{"CreateTable", `{"TableName":"others","KeySchema":[null]}`, "2 validation errors detected: " +
			null("keySchema.1.member.attributeName") + "; " + null("keySchema.1.member.keyType")},
		{"UpdateTimeToLive", `{"TableName":"things","TimeToLiveSpecification":{}}`, "2 validation errors detected: " +
			null("timeToLiveSpecification.attributeName") + "; " + null("timeToLiveSpecification.enabled")},
	} {
		status, got := ask(t, h, test.operation, test.body)
		if want := invalid + test.want + `"}`; status != http.StatusBadRequest || !sameMembers(got, want) {
			t.Errorf("%s %s\ngot  %d %s\nwant %s", test.operation, test.body, status, got, want)
		}
	}
}

// sameMembers compares validation messages, ignoring the order of their parts.
func sameMembers(got, want string) bool {
	if len(got) != len(want) {
		return false
	}
	_, list, _ := strings.Cut(want, "detected: ")
	for part := range strings.SplitSeq(strings.TrimSuffix(list, `"}`), "; ") {
		if !strings.Contains(got, part) {
			return false
		}
	}
	return true
}

// TestMissingMembers removes or replaces each part of a full request. The response is
// never a server fault.
func TestMissingMembers(t *testing.T) {
	t.Parallel()
	h := newHandler(t, wire.Config{})
	for operation, full := range fullRequests() {
		for _, without := range []string{"null", "{}", "[]"} {
			for body := range eachReplaced(full, without) {
				status, got := ask(t, h, operation, body)
				if status != http.StatusOK && status != http.StatusBadRequest {
					t.Errorf("%s %s\ngot %d %s", operation, body, status, got)
				}
			}
		}
	}
}

func TestErrorBodies(t *testing.T) {
	t.Parallel()
	h := newHandler(t, wire.Config{})
	if status, got := ask(t, h, "PutItem", `{"TableName":"things","Item":{"pk":{"S":"a"}}}`); status != http.StatusOK {
		t.Fatal(got)
	}
	const dynamodb = `{"__type":"com.amazonaws.dynamodb.v20120810#`
	for _, test := range []struct{ operation, body, want string }{
		{
			"PutItem", `{"TableName":"things","Item":{"pk":{"S":"a"}},"ConditionExpression":"attribute_not_exists(pk)"}`,
			dynamodb + `ConditionalCheckFailedException","message":"The conditional request failed"}`,
		},
		{
			"PutItem", `{"TableName":"things","Item":{"pk":{"S":"a"}},"ConditionExpression":"attribute_not_exists(pk)","ReturnValuesOnConditionCheckFailure":"ALL_OLD"}`,
			dynamodb + `ConditionalCheckFailedException","message":"The conditional request failed","Item":{"pk":{"S":"a"}}}`,
		},
		{
			"PutItem", `{"TableName":"things","Item":{"pk":{"S":"b"}},"ConditionExpression":"attribute_exists(pk)","ReturnValuesOnConditionCheckFailure":"ALL_OLD"}`,
			dynamodb + `ConditionalCheckFailedException","message":"The conditional request failed"}`,
		},
		{
			"CreateTable", `{"TableName":"things","BillingMode":"PAY_PER_REQUEST","KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}],"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}]}`,
			dynamodb + `ResourceInUseException","message":"Table already exists: things"}`,
		},
		{
			"TransactWriteItems", `{"TransactItems":[{"Delete":{"TableName":"things","Key":{"pk":{"S":"b"}}}},{"Put":{"TableName":"things","Item":{"pk":{"S":"a"}},"ConditionExpression":"attribute_not_exists(pk)","ReturnValuesOnConditionCheckFailure":"ALL_OLD"}}]}`,
			dynamodb + `TransactionCanceledException","Message":"Transaction cancelled, please refer cancellation reasons for specific reasons [None, ConditionalCheckFailed]",` +
				`"CancellationReasons":[{"Code":"None"},{"Code":"ConditionalCheckFailed","Item":{"pk":{"S":"a"}},"Message":"The conditional request failed"}]}`,
		},
	} {
		if status, got := ask(t, h, test.operation, test.body); status != http.StatusBadRequest || got != test.want {
			t.Errorf("%s %s\ngot  %d %s\nwant %s", test.operation, test.body, status, got, test.want)
		}
	}
}

// TestEmptyResponses: AWS always sends certain lists and maps, and boto3 and others
// fail without them.
func TestEmptyResponses(t *testing.T) {
	t.Parallel()
	h := newHandler(t, wire.Config{})
	const nothing = `"KeyConditionExpression":"pk = :p","ExpressionAttributeValues":{":p":{"S":"nothing"}}`
	for _, test := range []struct{ operation, body, want string }{
		{"GetItem", `{"TableName":"things","Key":{"pk":{"S":"nothing"}}}`, `{}`},
		{"PutItem", `{"TableName":"things","Item":{"pk":{"S":"other"}},"ReturnValues":"ALL_OLD"}`, `{}`},
		{"Query", `{"TableName":"things",` + nothing + `}`, `{"Count":0,"Items":[],"ScannedCount":0}`},
		{"Query", `{"TableName":"things","Select":"COUNT",` + nothing + `}`, `{"Count":0,"ScannedCount":0}`},
		{"Scan", `{"TableName":"things","FilterExpression":"attribute_exists(a)"}`, `{"Count":0,"Items":[],"ScannedCount":1}`},
		{"BatchGetItem", `{"RequestItems":{"things":{"Keys":[{"pk":{"S":"nothing"}}]}}}`, `{"Responses":{"things":[]},"UnprocessedKeys":{}}`},
		{"BatchWriteItem", `{"RequestItems":{"things":[{"DeleteRequest":{"Key":{"pk":{"S":"nothing"}}}}]}}`, `{"UnprocessedItems":{}}`},
		{"TransactGetItems", `{"TransactItems":[{"Get":{"TableName":"things","Key":{"pk":{"S":"nothing"}}}}]}`, `{"Responses":[{}]}`},
		{"TransactWriteItems", `{"TransactItems":[{"Delete":{"TableName":"things","Key":{"pk":{"S":"nothing"}}}}]}`, `{}`},
	} {
		if status, got := ask(t, h, test.operation, test.body); status != http.StatusOK || got != test.want {
			t.Errorf("%s %s\ngot  %d %s\nwant %s", test.operation, test.body, status, got, test.want)
		}
	}
}

// TestServerFault: an error of the store becomes a server fault without details.
func TestServerFault(t *testing.T) {
	t.Parallel()
	db := localdynamo.OpenMemory(localdynamo.Options{SweepInterval: -1})
	h, err := wire.New(db, wire.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	status, got := ask(t, h, "DescribeTable", `{"TableName":"things"}`)
	if want := `{"__type":"com.amazonaws.dynamodb.v20120810#InternalServerError","message":"Internal server error"}`; status != http.StatusInternalServerError || got != want {
		t.Errorf("got %d %s, want %s", status, got, want)
	}
}

func compress(t testing.TB, s string) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, s); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

func TestCompressedRequest(t *testing.T) {
	t.Parallel()
	h := newHandler(t, wire.Config{})
	for range 2 { // the second round reuses the buffers of the first
		r := request("DescribeTable", compress(t, `{"TableName":"things"}`))
		r.Header.Set("Content-Encoding", "gzip")
		if status, _, body := send(t, h, r); status != http.StatusOK {
			t.Errorf("got %d %s", status, body)
		}
		var deflated bytes.Buffer
		w := zlib.NewWriter(&deflated)
		if _, err := io.WriteString(w, `{"TableName":"things"}`); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
		r = request("DescribeTable", &deflated)
		r.Header.Set("Content-Encoding", "deflate")
		if status, _, body := send(t, h, r); status != http.StatusOK {
			t.Errorf("deflate: got %d %s", status, body)
		}
		for coding, body := range map[string]string{"gzip": "not gzip", "deflate": "not zlib", "br": "{}"} {
			r := request("DescribeTable", strings.NewReader(body))
			r.Header.Set("Content-Encoding", coding)
			if status, _, got := send(t, h, r); status != http.StatusBadRequest || !strings.HasPrefix(got, serialization) {
				t.Errorf("%s: got %d %s", coding, status, got)
			}
		}
	}
}

func TestCompressedResponse(t *testing.T) {
	t.Parallel()
	h := newHandler(t, wire.Config{})
	frame := len(`{"Item":{"pk":{"S":"edge-"},"v":{"S":""}}}`)
	for name, v := range map[string]string{
		"large": strings.Repeat("x", 10_000), "small": "", "edge-": strings.Repeat("x", 4<<10-frame), "below": strings.Repeat("x", 4<<10-frame-1),
	} {
		it := `{"pk":{"S":"` + name + `"},"v":{"S":"` + v + `"}}`
		if status, got := ask(t, h, "PutItem", `{"TableName":"things","Item":`+it+`}`); status != http.StatusOK {
			t.Fatal(name, got)
		}
	}
	for _, test := range []struct{ pk, accept, coding string }{
		{"large", "", ""},
		{"large", "identity", ""},
		{"large", "gzip;q=0", ""},
		{"large", "gzip; q=0.000, br", ""},
		{"large", "gzip;q=none", ""},
		{"large", "gzip", "gzip"},
		{"large", "GZIP", "gzip"},
		{"large", "deflate", "deflate"},
		{"large", "deflate", "deflate"}, // reuses the writer
		{"large", "deflate, gzip", "gzip"},
		{"large", "deflate, gzip;q=0.5", "deflate"},
		{"large", "deflate;q=0, gzip;q=0.001", "gzip"},
		{"edge-", "gzip", "gzip"},
		{"below", "gzip", ""},
		{"small", "gzip", ""},
	} {
		r := request("GetItem", strings.NewReader(`{"TableName":"things","Key":{"pk":{"S":"`+test.pk+`"}}}`))
		r.Header.Set("Accept-Encoding", test.accept)
		status, header, body := send(t, h, r)
		if got := header.Get("Content-Encoding"); status != http.StatusOK || got != test.coding {
			t.Errorf("%s with %q: %d, coding %q, want %q", test.pk, test.accept, status, got, test.coding)
			continue
		}
		if sum := strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(body))), 10); header.Get("X-Amz-Crc32") != sum {
			t.Errorf("%s with %q: X-Amz-Crc32 is not the checksum of the body as sent", test.pk, test.accept)
		}
		if test.coding != "" && len(body) > 500 {
			t.Errorf("%s with %q: compressed to %d bytes", test.pk, test.accept, len(body))
		}
		if body = uncompress(t, test.coding, body); !strings.HasPrefix(body, `{"Item":{`) || !strings.HasSuffix(body, "}}}") {
			t.Errorf("%s with %q: got %.100s", test.pk, test.accept, body)
		}
	}
}

func uncompress(t testing.TB, coding, s string) string {
	t.Helper()
	var r io.Reader = strings.NewReader(s)
	var err error
	switch coding {
	case "gzip":
		r, err = gzip.NewReader(r)
	case "deflate":
		r, err = zlib.NewReader(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(plain)
}

// TestEmptyBody: operations without output members have an empty body; others do not.
func TestEmptyBody(t *testing.T) {
	t.Parallel()
	h := newHandler(t, wire.Config{})
	arn := `"ResourceArn":"arn:aws:dynamodb:local:000000000000:table/things"`
	for _, test := range []struct{ operation, body string }{
		{"TagResource", `{` + arn + `,"Tags":[{"Key":"a","Value":"b"}]}`},
		{"UntagResource", `{` + arn + `,"TagKeys":["a"]}`},
	} {
		status, header, body := send(t, h, request(test.operation, strings.NewReader(test.body)))
		if status != http.StatusOK || body != "" || header.Get("Content-Length") != "0" || header.Get("X-Amz-Crc32") != "0" {
			t.Errorf("%s: got %d %q, %v", test.operation, status, body, header)
		}
		if got := header.Get("Server"); got != "Server" {
			t.Errorf("Server header is %q", got)
		}
	}
	if status, got := ask(t, h, "DeleteItem", `{"TableName":"things","Key":{"pk":{"S":"absent"}}}`); status != http.StatusOK || got != "{}" {
		t.Errorf("DeleteItem: got %d %q", status, got)
	}
}

// TestUnsupportedFeatures checks what FIDELITY.md says about requests.
func TestUnsupportedFeatures(t *testing.T) {
	t.Parallel()
	h := newHandler(t, wire.Config{AccessKey: "AK", SecretKey: "secret"})
	const text = `{"TableName":"things"}`

	presigned := request("DescribeTable", strings.NewReader(text))
	presigned.Header.Del("Authorization")
	query := presigned.URL.Query()
	query.Set("X-Amz-Algorithm", "AWS4-HMAC-SHA256")
	query.Set("X-Amz-Signature", "0")
	presigned.URL.RawQuery = query.Encode()
	if status, _, body := send(t, h, presigned); status != http.StatusBadRequest || !strings.Contains(body, "MissingAuthenticationTokenException") {
		t.Errorf("presigned: got %d %s", status, body)
	}

	crossOrigin := signedRequest(t, text)
	crossOrigin.Header.Set("Origin", "https://example.com")
	if status, header, body := send(t, h, crossOrigin); status != http.StatusOK || header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("cross-origin: got %d %s, %v", status, body, header)
	}
	preflight := httptest.NewRequest(http.MethodOptions, "http://localhost:8000/", nil)
	preflight.Header.Set("Origin", "https://example.com")
	if status, header, _ := send(t, h, preflight); status != http.StatusNotFound || header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("preflight: got %d, %v", status, header)
	}

	elsewhere := request("DescribeTable", strings.NewReader(text))
	elsewhere.URL.Path = "/any/path"
	if status, _, body := send(t, newHandler(t, wire.Config{}), elsewhere); status != http.StatusOK || !strings.Contains(body, `"TableId":"00000000-0000-0000-0000-0000`) {
		t.Errorf("another path: got %d %s", status, body)
	}
}

// TestHeadSizeLimit: URL and headers together have at most 16 KiB.
func TestHeadSizeLimit(t *testing.T) {
	t.Parallel()
	h := newHandler(t, wire.Config{})
	for _, test := range []struct{ name, path, value string }{
		{"a header", "/", strings.Repeat("x", 16<<10)},
		{"the URL", "/?" + strings.Repeat("x", 16<<10), ""},
		{"both", "/?" + strings.Repeat("x", 8<<10), strings.Repeat("x", 8<<10)},
	} {
		r := request("DescribeTable", strings.NewReader(`{"TableName":"things"}`))
		r.RequestURI = test.path
		r.Header.Set("X-Large", test.value)
		if status, _, body := send(t, h, r); status != http.StatusBadRequest || body != "Bad Request\n" {
			t.Errorf("%s: got %d %.100q", test.name, status, body)
		}
	}
	r := request("DescribeTable", strings.NewReader(`{"TableName":"things"}`))
	r.Header.Set("X-Large", strings.Repeat("x", 15<<10))
	if status, _, body := send(t, h, r); status != http.StatusOK {
		t.Errorf("15 KB: got %d %.100q", status, body)
	}
}

func TestNewRequiresBothKeys(t *testing.T) {
	t.Parallel()
	db := localdynamo.OpenMemory(localdynamo.Options{SweepInterval: -1})
	defer db.Close()
	for _, config := range []wire.Config{{AccessKey: "a"}, {SecretKey: "b"}} {
		if _, err := wire.New(db, config); err == nil {
			t.Errorf("%+v accepted", config)
		}
	}
}
