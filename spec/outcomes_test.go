package spec_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/tabletheory"
)

type answerVector struct {
	Name     string `json:"name"`
	Code     string `json:"code,omitempty"`
	Status   int    `json:"status,omitempty"`
	Attempts int    `json:"attempts"`
	Outcome  string `json:"outcome"`
}

type cancellationVector struct {
	Name     string   `json:"name"`
	Reasons  []string `json:"reasons"`
	Attempts int      `json:"attempts"`
	Outcome  string   `json:"outcome"`
}

type errorVector struct {
	Name    string `json:"name"`
	Error   string `json:"error"`
	Cause   string `json:"cause,omitempty"`
	Outcome string `json:"outcome"`
}

type echoVector struct {
	Name     string   `json:"name"`
	Write    string   `json:"write"`
	Item     item     `json:"item"`
	Removed  []string `json:"removed,omitempty"`
	Computed []string `json:"computed,omitempty"`
	Attempts int      `json:"attempts"`
	Stored   item     `json:"stored,omitempty"`
	Outcome  string   `json:"outcome"`
}

func TestOutcomes(t *testing.T) {
	type file struct {
		Answers       []answerVector       `json:"answers"`
		Cancellations []cancellationVector `json:"cancellations"`
		Errors        []errorVector        `json:"errors"`
		Echoes        []echoVector         `json:"echoes"`
	}
	run(t, "outcomes.json", func(f *file) {
		for i := range f.Answers {
			f.Answers[i].answer(t)
		}
		for i := range f.Cancellations {
			f.Cancellations[i].answer(t)
		}
		for i := range f.Errors {
			f.Errors[i].answer(t)
		}
		for i := range f.Echoes {
			f.Echoes[i].answer(t)
		}
	})
}

func (v *answerVector) answer(t *testing.T) {
	db := newFailingDB(t, v.Attempts, v.Status, errorBody(v.Code, nil))
	v.Outcome = tabletheory.OutcomeOf(db.Model(&marker{PK: "p", SK: "s"}).CreateOrUpdate()).String()
}

func (v *cancellationVector) answer(t *testing.T) {
	reasons := make([]map[string]string, len(v.Reasons))
	for i, code := range v.Reasons {
		reasons[i] = map[string]string{"Code": code, "Message": "scripted"}
	}
	db := newFailingDB(t, v.Attempts, http.StatusBadRequest, errorBody("TransactionCanceledException", map[string]any{"CancellationReasons": reasons}))
	err := db.TransactWrite(t.Context(), func(tx *tabletheory.TransactionBuilder) error {
		for i := range max(len(v.Reasons), 1) {
			tx.Put(&marker{PK: "p", SK: strconv.Itoa(i)})
		}
		return nil
	})
	v.Outcome = tabletheory.OutcomeOf(err).String()
}

func (v *errorVector) answer(t *testing.T) {
	t.Helper()
	err := fmt.Errorf("store.Publish: %w", errorNamed(t, v.Error))
	if v.Cause != "" {
		err = fmt.Errorf("%w: %w", err, errorNamed(t, v.Cause))
	}
	v.Outcome = dynamostore.OutcomeOf(err).String()
}

// errorNamed returns the Go error for a name that all languages share.
func errorNamed(t *testing.T, name string) error {
	t.Helper()
	known := map[string]error{
		"InvalidInput": store.ErrInvalidInput, "InvalidKey": store.ErrInvalidKey,
		"InvalidModel": tabletheory.ErrInvalidModel, "InvalidQuery": tabletheory.ErrInvalidQuery,
		"ConditionFailed":     mapperError(tabletheory.ErrConditionFailed, &types.ConditionalCheckFailedException{}),
		"VersionConflict":     mapperError(tabletheory.ErrVersionConflict, &types.ConditionalCheckFailedException{}),
		"TransactionConflict": mapperError(tabletheory.ErrTransactionConflict, &types.TransactionConflictException{}),
		"Throttled":           mapperError(tabletheory.ErrThrottled, &types.ThrottlingException{}),
		"TableNotFound":       mapperError(tabletheory.ErrTableNotFound, &types.ResourceNotFoundException{}),
		"ItemNotFound":        tabletheory.ErrItemNotFound,
		"LeaseHeld":           &store.HeldError{}, "LeaseLost": store.ErrLeaseLost, "Moved": store.ErrMoved,
		"Pinned": store.ErrPinned, "Purged": store.ErrPurged, "NoVersion": store.ErrNoVersion, "Denied": store.ErrDenied,
		"RequestCompleted": store.ErrRequestCompleted, "RequestInProgress": store.ErrRequestInProgress, "RequestMismatch": store.ErrRequestMismatch,
		"MalformedRow": &dynamostore.MalformedError{}, "UnknownOutcome": store.ErrUnknownOutcome,
	}
	err, ok := known[name]
	if !ok {
		t.Fatalf("unknown error name %q", name)
	}
	return err
}

// mapperError returns an error as the mapper does: a sentinel that wraps the SDK's error.
func mapperError(sentinel, cause error) error { return fmt.Errorf("%w: %w", sentinel, cause) }

func (v *echoVector) answer(t *testing.T) {
	t.Helper()
	more := map[string]any{}
	if v.Stored != nil {
		more["Item"] = v.Stored
	}
	db := newFailingDB(t, v.Attempts, http.StatusBadRequest, errorBody("ConditionalCheckFailedException", more))
	v.Outcome = tabletheory.OutcomeOf(v.write(t, db)).String()
}

// write sends a request with the vector's item. The model's version is one less,
// because the write increments it.
func (v *echoVector) write(t *testing.T, db *tabletheory.DB) error {
	t.Helper()
	var m marker
	if err := db.UnmarshalItem(t.Context(), v.Item, &m); err != nil {
		t.Fatal(err)
	}
	var model any = &plain{PK: m.PK, SK: m.SK, Name: m.Name, Marks: m.Marks, Count: m.Count}
	if m.Version > 0 {
		m.Version-- // the write increments it
		model = &m
	}
	query := db.Model(model)
	switch {
	case v.Write == "create":
		return query.Create()
	case v.Write == "put":
		return query.IfExists().CreateOrUpdate()
	case v.Write == "delete":
		return query.IfExists().Delete()
	case v.Computed != nil:
		return query.UpdateBuilder().Increment(v.Computed[0]).ConditionVersion(m.Version).Execute()
	}
	fields := slices.Clone(v.Removed)
	for name := range v.Item {
		if !slices.Contains([]string{"pk", "sk", "version"}, name) {
			fields = append(fields, name)
		}
	}
	return query.IfExists().Update(fields...)
}

// A marker is the versioned model of the echo vectors.
type marker struct {
	PK      string   `theorydb:"pk,attr:pk"`
	SK      string   `theorydb:"sk,attr:sk"`
	Name    string   `theorydb:"omitempty"`
	Marks   []string `theorydb:"set,omitempty"`
	Count   int64    `theorydb:"omitempty"`
	Version int64    `theorydb:"version"`
}

// A plain is a marker without a version.
type plain struct {
	PK    string   `theorydb:"pk,attr:pk"`
	SK    string   `theorydb:"sk,attr:sk"`
	Name  string   `theorydb:"omitempty"`
	Marks []string `theorydb:"set,omitempty"`
	Count int64    `theorydb:"omitempty"`
}

func (marker) TableName() string { return tableName }
func (plain) TableName() string  { return tableName }

// errorBody returns the body of an error response.
func errorBody(code string, more map[string]any) []byte {
	body := map[string]any{}
	if code != "" {
		body = map[string]any{"__type": "com.amazonaws.dynamodb.v20120810#" + code, "message": "scripted"}
	}
	maps.Copy(body, more)
	text, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return text
}

// newFailingDB returns a DB on a server that resets the connection on all attempts
// except the last; with status 0 on that one too.
func newFailingDB(t *testing.T, attempts, status int, body []byte) *tabletheory.DB {
	t.Helper()
	var made atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if made.Add(1) < int64(attempts) || status == 0 {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}))
	t.Cleanup(server.Close)
	return tabletheory.New(dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: &server.URL,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		Retryer: retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts = attempts
			o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
		}),
	}), tabletheory.WithRetries(0))
}
