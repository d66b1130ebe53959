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
)

// Config of a Handler. The zero value accepts any credentials.
type Config struct {
	// AccessKey and SecretKey, if set, are the only credentials accepted, and
	// every signature is verified. If they are empty, any well-formed
	// Signature Version 4 header is accepted, as nothing can be verified:
	// listen on loopback only. One without the other is an error.
	AccessKey, SecretKey string

	// Now is the clock that the dates of signatures are compared with; the
	// default is time.Now. It must be safe for concurrent use.
	Now func() time.Time

	// MaxBodies bounds what the bodies of all requests in flight take in memory, in
	// bytes, beyond 64 KiB of each; requests for which there is no room get a
	// ThrottlingException, which SDKs repeat. Zero means 256 MiB.
	MaxBodies int64

	// Logger gets the failures of the store, which clients see only as an
	// InternalServerError. By default they are logged nowhere.
	Logger *slog.Logger

	// Intercept, if set, is called for each request that reached the engine's
	// door; see Interceptor. For tests.
	Intercept Interceptor
}

// Interceptor stands between the protocol and the engine. It is called once
// for each request that could be decoded, in the request's goroutine, and so
// concurrently for concurrent requests. apply has the engine do the call, and
// returns when that is done; calling it again does nothing. The context ends
// when the client goes away.
//
// Returning nil answers with the engine's result, which is obtained first if
// apply was not called. An error is answered in its place: if it is one of
// the API's (a smithy.APIError, such as *types.TransactionConflictException)
// as AWS would send it, and any other by breaking the connection without an
// answer. So there are two ways to fail a call: not applied, by returning an
// error without calling apply, and applied with the reply lost, by calling
// apply first.
type Interceptor func(ctx context.Context, call Call, apply func()) error

// Call is one request as an Interceptor sees it.
type Call struct {
	Operation string // "PutItem"
	Input     any    // *dynamodb.PutItemInput, as it arrived; not to be changed once applied
}

// Handler serves a DB. It is safe for concurrent use.
type Handler struct {
	db         *localdynamo.DB
	operations map[string]*operation
	leftOut    map[string]struct{} // operations of AWS that are answered by name
	signatures *verifier           // nil if any is accepted
	log        *slog.Logger
	intercept  Interceptor
	errors     errorCodec
	bodies     *budget
	exchanges  sync.Pool // of *exchange
}

var _ http.Handler = (*Handler)(nil)

// New returns a Handler that serves db, which stays the caller's to close,
// after the last request.
func New(db *localdynamo.DB, config Config) (*Handler, error) {
	if (config.AccessKey == "") != (config.SecretKey == "") {
		return nil, errors.New("wire: an access key and a secret key go together; set both, or neither to accept any credentials")
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
		db:         db,
		operations: table,
		leftOut:    leftOut(),
		log:        config.Logger,
		intercept:  config.Intercept,
		errors:     codec,
	}
	if config.MaxBodies == 0 {
		config.MaxBodies = 256 << 20
	}
	h.bodies = &budget{left: config.MaxBodies}
	h.exchanges.New = func() any { return newExchange(h.bodies) }
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	if config.AccessKey != "" {
		h.signatures = newVerifier(config)
	}
	return h, nil
}

// ServeHTTP answers one request. A connection that an Interceptor breaks ends
// with the panic http.ErrAbortHandler, which net/http turns into just that.
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
	case r.Method != http.MethodPost || !speaksJSON(r):
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

// maxHead is how many bytes the URL and the headers of a request may have, as on AWS.
const maxHead = 16 << 10

// headSize is how many bytes the URL and the headers of a request have, more or less.
func headSize(r *http.Request) int {
	size := len(r.RequestURI) + len(r.Host)
	for name, values := range r.Header {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	return size
}

// speaksJSON reports whether the body claims to be what the protocol is made
// of; AWS takes plain application/json for it too.
func speaksJSON(r *http.Request) bool {
	given := r.Header.Get("Content-Type")
	if given == amzJSON {
		return true
	}
	media, _, err := mime.ParseMediaType(given)
	return err == nil && (media == amzJSON || media == "application/json")
}

// serve does what the request asks for, and leaves the answer in x.out. The
// checks come in the order of AWS.
func (h *Handler) serve(x *exchange, w http.ResponseWriter, r *http.Request) error {
	op, err := h.target(r.Header.Get("X-Amz-Target"))
	if err != nil {
		return err
	}
	auth, err := parseAuthorization(r.Header)
	if err != nil {
		return err
	}
	// Strangers are refused before they have sent anything that is kept.
	if err := h.signatures.admit(auth); err != nil {
		return err
	}
	if err := x.read(w, r); err != nil {
		return err
	}
	if err := h.signatures.verify(r, auth, x.in); err != nil {
		return err
	}
	if err := x.unpack(r.Header.Get("Content-Encoding")); err != nil {
		return err
	}
	return h.call(x, r, op)
}

// target finds the operation.
func (h *Handler) target(given string) (*operation, error) {
	service, name, _ := strings.Cut(given, ".")
	if service == "DynamoDB_20120810" {
		if op := h.operations[name]; op != nil {
			return op, nil
		}
	}
	if _, known := h.leftOut[name]; known || service == "DynamoDBStreams_20120810" {
		return nil, clientFault("UnknownOperationException", "localdynamo does not implement %s; its FIDELITY.md lists what is left out", given)
	}
	return nil, clientFault("UnknownOperationException", "There is no operation %.100q; X-Amz-Target is to be DynamoDB_20120810 followed by a dot and the operation's name", given)
}

// call decodes, applies and encodes.
func (h *Handler) call(x *exchange, r *http.Request, op *operation) error {
	in, err := op.decode(&x.decoder, x.in)
	if err != nil {
		return err
	}
	out, err := h.apply(r.Context(), op, in)
	if err != nil {
		return err
	}
	if here, ok := out.(*dynamodb.DescribeEndpointsOutput); ok {
		locate(here, r.Host)
	}
	x.out = op.encode(x.out, out)
	return nil
}

// locate puts the address that the client has found us under in place of the
// engine's, which has none.
func locate(out *dynamodb.DescribeEndpointsOutput, host string) {
	for i := range out.Endpoints {
		out.Endpoints[i].Address = &host
	}
}

// apply has the engine do it, unless the interceptor prevents that.
func (h *Handler) apply(ctx context.Context, op *operation, in any) (any, error) {
	if h.intercept == nil {
		return op.run(h.db, ctx, in)
	}
	var out any
	var err error
	var once sync.Once
	apply := func() { once.Do(func() { out, err = op.run(h.db, ctx, in) }) }
	if intercepted := h.intercept(ctx, Call{Operation: op.name, Input: in}, apply); intercepted != nil {
		if !isAPIError(intercepted) {
			panic(http.ErrAbortHandler)
		}
		return nil, intercepted
	}
	apply()
	return out, err
}

// fail leaves the error in x.out, and returns the status.
func (h *Handler) fail(x *exchange, r *http.Request, err error) int {
	if !isAPIError(err) || isServerFault(err) {
		if r.Context().Err() == nil { // else it is the client that went away
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
