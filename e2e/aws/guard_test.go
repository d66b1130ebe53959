package aws

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
)

// newGuard starts a proxy in front of a server of AWS's protocols, with the permissions of a policy,
// and returns its URL. name names a resource, such as a table, in policies; "" if it is not of this
// installation. The signatures stay valid, because the proxy keeps the Host.
func newGuard(t *testing.T, p *policy, server string, calls func(*http.Request, []byte) ([]call, error)) string {
	t.Helper()
	to, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host
		},
		ModifyResponse: func(r *http.Response) error { return p.judgeMissing(r) },
	}
	guard := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
		if err != nil {
			return // the client has gone
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if p.outage.Load() && strings.HasPrefix(r.Header.Get("X-Amz-Target"), "DynamoDB") {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		named, err := calls(r, body)
		if err != nil {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
			refuse(w, r)
			return
		}
		for _, c := range named {
			if !p.allow(c) {
				refuse(w, r)
				return
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(guard.Close)
	return guard.URL
}

// refuse answers as AWS does to a call that no policy allows.
func refuse(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Amz-Target") != "" {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"__type":"com.amazon.coral.service#AccessDeniedException","Message":"not authorized"}`)
		return
	}
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(http.StatusForbidden)
	_, _ = io.WriteString(w, `<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>`)
}

// judgeMissing turns 404 for an object into 403 unless the policy allows s3:ListBucket, as S3 does.
func (p *policy) judgeMissing(r *http.Response) error {
	if r.StatusCode != http.StatusNotFound || r.Request.Header.Get("X-Amz-Target") != "" || p.allow(call{"s3:ListBucket", "Bucket"}) {
		return nil
	}
	r.StatusCode, r.Status = http.StatusForbidden, "403 Forbidden"
	return nil
}

// dynamodbCalls returns the actions of a request to DynamoDB on a table. A transaction needs the
// permissions of its actions.
func dynamodbCalls(table func(string) string) func(*http.Request, []byte) ([]call, error) {
	return func(r *http.Request, body []byte) (calls []call, _ error) {
		type item struct{ TableName string }
		var in struct {
			item
			IndexName     string
			RequestItems  map[string]json.RawMessage
			TransactItems []map[string]item
		}
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, err
		}
		_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		switch operation {
		case "TransactWriteItems", "TransactGetItems":
			for _, members := range in.TransactItems {
				for kind, member := range members {
					action := map[string]string{"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "Get": "GetItem", "ConditionCheck": "ConditionCheckItem"}[kind]
					calls = append(calls, call{"dynamodb:" + action, table(member.TableName)})
				}
			}
		case "BatchGetItem", "BatchWriteItem":
			for name := range in.RequestItems {
				calls = append(calls, call{"dynamodb:" + operation, table(name)})
			}
		default:
			resource := table(in.TableName)
			if in.IndexName != "" {
				resource += "/index/" + in.IndexName
			}
			calls = append(calls, call{"dynamodb:" + operation, resource})
		}
		if len(calls) == 0 {
			return nil, fmt.Errorf("no action in %s", body)
		}
		return calls, nil
	}
}

// s3Calls returns the action of a request to S3. Uploads in parts need s3:PutObject; a HEAD needs
// what a GET needs.
func s3Calls(object func(bucket, key string) string) func(*http.Request, []byte) ([]call, error) {
	return func(r *http.Request, _ []byte) ([]call, error) {
		bucket, key, isObject := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		query := r.URL.Query()
		if !isObject || key == "" {
			switch {
			case r.Method == http.MethodHead, r.Method == http.MethodGet && (query.Has("list-type") || len(query) == 0):
				return []call{{"s3:ListBucket", "Bucket"}}, nil
			case r.Method == http.MethodPost && query.Has("delete"):
				return []call{{"s3:DeleteObject", "Bucket/bodies/"}}, nil
			}
			for parameter, action := range map[string]string{"versioning": "GetBucketVersioning", "lifecycle": "GetLifecycleConfiguration", "location": "GetBucketLocation", "uploads": "ListBucketMultipartUploads", "policy": "GetBucketPolicy", "encryption": "GetEncryptionConfiguration"} {
				if r.Method == http.MethodGet && query.Has(parameter) {
					return []call{{"s3:" + action, "Bucket"}}, nil
				}
			}
			return nil, fmt.Errorf("a call of S3 that this test does not know")
		}
		action, known := map[string]string{http.MethodGet: "GetObject", http.MethodHead: "GetObject", http.MethodPut: "PutObject", http.MethodPost: "PutObject", http.MethodDelete: "DeleteObject"}[r.Method]
		switch {
		case !known:
			return nil, fmt.Errorf("a call of S3 that this test does not know")
		case r.Method == http.MethodDelete && query.Has("uploadId"):
			action = "AbortMultipartUpload"
		}
		return []call{{"s3:" + action, object(bucket, key)}}, nil
	}
}

// sqsCalls returns the action of a request to SQS; batches need the permission of their action.
func sqsCalls(queue func(string) string) func(*http.Request, []byte) ([]call, error) {
	return func(r *http.Request, body []byte) ([]call, error) {
		var in struct{ QueueUrl string } //nolint:revive // the name on the wire
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, err
		}
		_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		return []call{{"sqs:" + strings.TrimSuffix(operation, "Batch"), queue(in.QueueUrl)}}, nil
	}
}
