package wire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/localdynamo/internal/answer"
)

// Config configures a Handler. The zero value accepts any credentials.
type Config struct {
	// AccessKey and SecretKey, if set, are the only accepted credentials, and every
	// signature is verified. If both are empty, any well-formed Signature Version 4
	// header is accepted without verification: listen on loopback only. Setting only
	// one of them is an error.
	AccessKey, SecretKey string

	// Now is the clock for checking the dates of signatures; the default is time.Now.
	// It must be safe for concurrent use.
	Now func() time.Time

	// MaxBodyMemory is the maximum memory, in bytes, for the bodies of all requests in
	// flight, not counting the first 64 KiB of each. Requests beyond it get a
	// ThrottlingException, which SDKs retry. Zero means 256 MiB.
	MaxBodyMemory int64

	// MaxResponseMemory is the maximum memory, in bytes, for the responses to all requests in
	// flight, until their clients have read them, not counting the first 64 KiB of each.
	// Decoded items count with their overhead, up to twenty times their size. A request
	// beyond it waits for 20 seconds, first come, first served, and then gets a
	// ThrottlingException, which SDKs retry; a write gets it before it is applied. Zero means
	// 64 MiB.
	MaxResponseMemory int64

	// Logger receives the errors of the store, which clients see only as an
	// InternalServerError. By default they are discarded.
	Logger *slog.Logger

	// Intercept, if set, is called for each decoded request; see Interceptor. It is
	// meant for tests.
	Intercept Interceptor
}

// Interceptor runs between the protocol and the engine. It is called once for each
// request that can be decoded, in the request's goroutine, so concurrent requests call
// it concurrently. apply executes the call in the engine and returns when it is done;
// later calls of apply do nothing. ctx is canceled when the client disconnects.
//
// If it returns nil, the response is the engine's result; if apply was not called, it
// is called then. If it returns an error of the API (a smithy.APIError such as
// *types.TransactionConflictException), that error is the response, as AWS would send
// it. Any other error breaks the connection without a response. A call can thus fail in
// two ways: not applied, by returning an error without calling apply, and applied with
// the reply lost, by calling apply first.
type Interceptor func(ctx context.Context, call Call, apply func()) error

// Call is a request as an Interceptor sees it.
type Call struct {
	Operation string // "PutItem"
	Input     any    // *dynamodb.PutItemInput as received; must not be modified after apply

	// Output returns the engine's result after apply, such as a *dynamodb.PutItemOutput, or
	// nil if the call failed or has not been applied. The Interceptor may change it.
	Output func() any
}

// Handler serves a DB. It is safe for concurrent use.
type Handler struct {
	db          *localdynamo.DB
	operations  map[string]*operation
	unsupported map[string]struct{} // AWS's operations that get an error of their own
	signatures  *verifier           // nil accepts any signature
	log         *slog.Logger
	intercept   Interceptor
	errors      errorCodec
	bodies      *budget
	answers     *answer.Budget
	exchanges   sync.Pool // of *exchange
}

var _ http.Handler = (*Handler)(nil)

// New returns a Handler that serves db. The caller closes db after the last request.
func New(db *localdynamo.DB, config Config) (*Handler, error) {
	if (config.AccessKey == "") != (config.SecretKey == "") {
		return nil, errors.New("wire: only one of access key and secret key is set; set both, or neither to accept any credentials")
	}
	structs := plans{}
	table, err := operations(structs)
	if err != nil {
		return nil, fmt.Errorf("wire: %w", err)
	}
	codec, err := newErrorCodec(structs)
	if err != nil {
		return nil, fmt.Errorf("wire: %w", err)
	}
	h := &Handler{
		db:          db,
		operations:  table,
		unsupported: unsupported(),
		log:         config.Logger,
		intercept:   config.Intercept,
		errors:      codec,
	}
	if config.MaxBodyMemory == 0 {
		config.MaxBodyMemory = 256 << 20
	}
	if config.MaxResponseMemory == 0 {
		config.MaxResponseMemory = 64 << 20
	}
	h.bodies = &budget{left: config.MaxBodyMemory}
	h.answers = answer.NewBudget(config.MaxResponseMemory)
	h.exchanges.New = func() any { return newExchange(h.bodies, h.answers) }
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	if config.AccessKey != "" {
		h.signatures = newVerifier(config)
	}
	return h, nil
}

// ServeHTTP implements http.Handler. To break a connection for an Interceptor it panics
// with http.ErrAbortHandler, as net/http prescribes.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := h.exchanges.Get().(*exchange)
	defer h.release(x)
	switch {
	case headSize(r) > maxHead:
		x.out = append(x.out, "Bad Request\n"...)
		x.reply(w, r, http.StatusBadRequest, plainText)
	case r.Method == http.MethodGet:
		x.out = append(append(append(x.out, "healthy: "...), r.Host...), ' ')
		x.reply(w, r, http.StatusOK, plainText)
	case r.Method != http.MethodPost || !isDynamoDBJSON(r):
		x.out = append(x.out, "<UnknownOperationException/>\n"...)
		x.reply(w, r, http.StatusNotFound, plainText)
	default:
		status := http.StatusOK
		if err := h.serve(x, w, r); err != nil {
			status = h.fail(x, r, err)
		}
		x.reply(w, r, status, amzJSON)
	}
}

// maxHead is the maximum size of the URL and headers of a request in bytes, as on AWS.
const maxHead = 16 << 10

// headSize returns the approximate size of the URL and headers of a request in bytes.
func headSize(r *http.Request) int {
	size := len(r.RequestURI) + len(r.Host)
	for name, values := range r.Header {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	return size
}

// isDynamoDBJSON reports whether the Content-Type is the protocol's. AWS also
// accepts application/json.
func isDynamoDBJSON(r *http.Request) bool {
	contentType := r.Header.Get("Content-Type")
	if contentType == amzJSON {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == amzJSON || media == "application/json")
}

// serve executes the request and writes the response body to x.out. The checks are in
// AWS's order.
func (h *Handler) serve(x *exchange, w http.ResponseWriter, r *http.Request) error {
	op, err := h.target(r.Header.Get("X-Amz-Target"))
	if err != nil {
		return err
	}
	auth, err := parseAuthorization(r.Header)
	if err != nil {
		return err
	}
	// Reject clients without valid credentials before buffering their bodies.
	if err := h.signatures.admit(auth); err != nil {
		return err
	}
	if err := x.read(w, r); err != nil {
		return err
	}
	if err := h.signatures.verify(r, auth, x.in); err != nil {
		return err
	}
	if err := x.decompress(r.Header.Get("Content-Encoding")); err != nil {
		return err
	}
	return h.call(x, r, op)
}

// target returns the operation that the X-Amz-Target header names.
func (h *Handler) target(header string) (*operation, error) {
	service, name, _ := strings.Cut(header, ".")
	if service == "DynamoDB_20120810" {
		if op := h.operations[name]; op != nil {
			return op, nil
		}
	}
	if _, known := h.unsupported[name]; known || service == "DynamoDBStreams_20120810" {
		return nil, clientFault("UnknownOperationException", "localdynamo does not implement %s; its FIDELITY.md lists the unsupported operations", header)
	}
	return nil, clientFault("UnknownOperationException", "Unknown operation %.100q; X-Amz-Target must be DynamoDB_20120810, a dot and the name of an operation", header)
}

// call decodes the input, applies the operation and encodes the output.
func (h *Handler) call(x *exchange, r *http.Request, op *operation) error {
	in, err := op.decode(&x.decoder, x.in)
	if err != nil {
		return err
	}
	out, err := h.apply(answer.With(r.Context(), &x.meter), op, in)
	if err != nil {
		return err
	}
	if endpoints, ok := out.(*dynamodb.DescribeEndpointsOutput); ok {
		setAddress(endpoints, r.Host)
	}
	x.out = op.encode(x.out, out)
	return nil
}

// setAddress sets the address to the host of the client's request; the engine does not
// know its address.
func setAddress(out *dynamodb.DescribeEndpointsOutput, host string) {
	for i := range out.Endpoints {
		out.Endpoints[i].Address = &host
	}
}

// apply executes the operation, through the interceptor if there is one.
func (h *Handler) apply(ctx context.Context, op *operation, in any) (any, error) {
	if h.intercept == nil {
		return op.run(h.db, ctx, in)
	}
	var out any
	var err error
	var once sync.Once
	apply := func() { once.Do(func() { out, err = op.run(h.db, ctx, in) }) }
	output := func() any {
		if err != nil {
			return nil
		}
		return out
	}
	if intercepted := h.intercept(ctx, Call{Operation: op.name, Input: in, Output: output}, apply); intercepted != nil {
		if !isAPIError(intercepted) {
			panic(http.ErrAbortHandler)
		}
		return nil, intercepted
	}
	apply()
	return out, err
}

// fail writes the error's body to x.out and returns the status.
func (h *Handler) fail(x *exchange, r *http.Request, err error) int {
	if !isAPIError(err) || isServerFault(err) {
		if r.Context().Err() == nil { // otherwise the client disconnected
			h.log.ErrorContext(r.Context(), "localdynamo: request failed", "target", r.Header.Get("X-Amz-Target"), "error", err)
		}
	}
	var status int
	x.out, status = h.errors.encode(x.out[:0], err)
	return status
}

func (h *Handler) release(x *exchange) {
	x.reset()
	h.exchanges.Put(x)
}
