package server

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/handover"
	"github.com/facetheory/isr/internal/testbed"
)

// Each attempt that AWS throttles is counted, also if the SDK then succeeds; other errors are
// not.
func TestThrottles(t *testing.T) {
	var attempts atomic.Int64
	aws3 := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := attempts.Add(1)
		switch table := r.Header.Get("X-Amz-Target") != ""; {
		case table && n == 1:
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException","message":"slower"}`)
		case table:
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			fmt.Fprint(w, `{"TableNames":[]}`)
		case n == 3:
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>`)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `<Error><Code>NoSuchBucket</Code></Error>`)
		}
	}))
	t.Cleanup(aws3.Close)
	cfg := aws.Config{Region: "eu-west-1", Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""), BaseEndpoint: &aws3.URL}
	var counted []isr.OperationKind
	countThrottles(&cfg, func(kind isr.OperationKind) { counted = append(counted, kind) })
	if _, err := dynamodb.NewFromConfig(cfg).ListTables(t.Context(), &dynamodb.ListTablesInput{}); err != nil {
		t.Fatal(err)
	}
	client := s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = true })
	if _, err := client.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: aws.String("pages")}); err == nil {
		t.Error("there is a bucket")
	}
	if want := []isr.OperationKind{isr.OperationTable, isr.OperationBodies}; !slices.Equal(counted, want) || attempts.Load() != 4 {
		t.Errorf("counted %v in %d attempts", counted, attempts.Load())
	}
}

func TestMetricsAddress(t *testing.T) {
	f := &metricsFlags{Metrics: "9182"}
	if err := f.validate(); err == nil || !strings.Contains(err.Error(), `--metrics "9182" is not an address; expected host:port, like 127.0.0.1:9182`) {
		t.Errorf("the error is %v", err)
	}
	for address, warned := range map[string]bool{"127.0.0.1:0": false, "[::1]:0": false, ":0": true} {
		log := new(testbed.Log)
		m, stop, err := measure(t.Context(), slog.New(slog.NewTextHandler(log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		r, err := (&metricsFlags{Metrics: address}).serve(t.Context(), new(handover.Sockets), m, nil, slog.New(slog.NewTextHandler(log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		defer r.server.Close()
		if got := strings.Contains(log.String(), "level=WARN"); got != warned || !strings.Contains(log.String(), "metrics on http://") {
			t.Errorf("%s: logged %s", address, log)
		}
		_, url, _ := strings.Cut(log.String(), "metrics on ")
		url, _, _ = strings.Cut(url, `"`)
		for host, want := range map[string]int{"": 200, "rebound.example": map[bool]int{false: 403, true: 200}[warned]} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = host
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if res.StatusCode != want {
				t.Errorf("%s, Host %q: %s", address, host, res.Status)
			}
		}
	}
}
