package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"
)

// Tables without credentials refuse web pages and other host names (DNS rebinding).
func TestTablesWithoutKeysAreForThisMachine(t *testing.T) {
	h := refuseWebPages(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, tt := range []struct {
		host, header, value string
		want                int
	}{
		{"127.0.0.1:8000", "", "", 200},
		{"localhost:8000", "", "", 200},
		{"[::1]:8000", "", "", 200},
		{"[::1]", "", "", 200},
		{"127.0.0.1", "", "", 200},
		{"localhost:49152", "", "", 200}, // a tunnel, or a published port of a container
		{"localhost:8000", "Sec-Fetch-Site", "none", 200},
		{"localhost:8000", "Origin", "http://evil.example", 403},
		{"localhost:8000", "Sec-Fetch-Site", "cross-site", 403},
		{"evil.example:8000", "", "", 403},
		{"127.0.0.1:8000:8000", "", "", 403},
		{"127.0.0.1.evil.example", "", "", 403},
		{"[", "", "", 403},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
		r.Host = tt.host
		if tt.header != "" {
			r.Header.Set(tt.header, tt.value)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tt.want {
			t.Errorf("%+v: %d", tt, w.Code)
		}
	}
}

// An SDK shows why a request is refused.
func TestRefusedHostsAreNamedToSDKs(t *testing.T) {
	s := httptest.NewServer(refuseWebPages(http.NotFoundHandler()))
	t.Cleanup(s.Close)
	client := dynamodb.New(dynamodb.Options{
		Region: "local", Credentials: aws.AnonymousCredentials{},
		BaseEndpoint: aws.String("http://tables.example:8000"),
		HTTPClient: &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, s.Listener.Addr().String())
		}}},
	})
	_, err := client.ListTables(t.Context(), &dynamodb.ListTablesInput{})
	refused, ok := errors.AsType[smithy.APIError](err)
	if !ok || refused.ErrorCode() != "AccessDeniedException" || !strings.Contains(refused.ErrorMessage(), `the host "tables.example:8000"; use the host 127.0.0.1 or localhost`) {
		t.Errorf("ListTables: %v, want AccessDeniedException with the host and what to do", err)
	}
}
