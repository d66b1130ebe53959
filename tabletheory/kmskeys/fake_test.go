package kmskeys_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kms"
)

// fakeKMS is an HTTP server for the part of the AWS KMS protocol (JSON 1.1) that
// envelopes use. A request that KMS would not accept fails the test. A sealed key is
// random bytes that only this server can resolve.
type fakeKMS struct {
	t testing.TB

	mu       sync.Mutex
	keys     map[string]string // key IDs, by ID and by alias
	blobs    map[string]sealedKey
	failures []failure // the next responses
	decrypt  int       // number of Decrypt calls
}

// sealedKey is the content of a blob.
type sealedKey struct {
	keyID   string
	plain   []byte
	context map[string]string
}

// failure is an error response.
type failure struct {
	status        int
	kind, message string
}

func (f failure) Error() string { return f.kind }

func newFakeKMS(t testing.TB, ids ...string) (*fakeKMS, *kms.Client) {
	t.Helper()
	f := &fakeKMS{t: t, keys: map[string]string{}, blobs: map[string]sealedKey{}}
	for _, id := range ids {
		f.keys[id] = id
	}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return f, kms.New(kms.Options{
		Region: "eu-central-1", BaseEndpoint: aws.String(server.URL), HTTPClient: server.Client(),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		Retryer:     retry.NewStandard(func(o *retry.StandardOptions) { o.MaxBackoff = time.Microsecond }),
	})
}

func (f *fakeKMS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	response, err := f.respond(r)
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	if err != nil {
		failed, ok := err.(failure)
		if !ok {
			f.t.Errorf("invalid request: %v", err)
			failed = failure{400, "SerializationException", err.Error()}
		}
		w.WriteHeader(failed.status)
		response = map[string]string{"__type": failed.kind, "message": failed.message}
	}
	if err := json.NewEncoder(w).Encode(response); err != nil {
		f.t.Error(err)
	}
}

func (f *fakeKMS) respond(r *http.Request) (any, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case r.Method != http.MethodPost || r.URL.Path != "/":
		return nil, fmt.Errorf("%s %s", r.Method, r.URL)
	case r.Header.Get("Content-Type") != "application/x-amz-json-1.1":
		return nil, fmt.Errorf("content type %q", r.Header.Get("Content-Type"))
	case !strings.Contains(r.Header.Get("Authorization"), "/eu-central-1/kms/aws4_request"):
		return nil, fmt.Errorf("authorization %q", r.Header.Get("Authorization"))
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if len(f.failures) > 0 {
		next := f.failures[0]
		f.failures = f.failures[1:]
		return nil, next
	}
	switch target := r.Header.Get("X-Amz-Target"); target {
	case "TrentService.GenerateDataKey":
		return f.generateDataKey(body)
	case "TrentService.Decrypt":
		f.decrypt++
		return f.open(body)
	default:
		return nil, fmt.Errorf("target %q", target)
	}
}

func (f *fakeKMS) generateDataKey(body []byte) (any, error) {
	var in struct {
		KeyId, KeySpec    string
		EncryptionContext map[string]string
	}
	if err := decodeStrict(body, &in); err != nil {
		return nil, err
	}
	if in.KeySpec != "AES_256" {
		return nil, failure{400, "ValidationException", "KeySpec"}
	}
	id, err := f.key(in.KeyId)
	if err != nil {
		return nil, err
	}
	plain, blob := make([]byte, 32), make([]byte, 184)
	rand.Read(plain)
	rand.Read(blob)
	f.blobs[string(blob)] = sealedKey{id, plain, in.EncryptionContext}
	return map[string]any{"CiphertextBlob": blob, "Plaintext": plain, "KeyId": arn(id)}, nil
}

func (f *fakeKMS) open(body []byte) (any, error) {
	var in struct {
		CiphertextBlob    []byte
		KeyId             string
		EncryptionContext map[string]string
	}
	if err := decodeStrict(body, &in); err != nil {
		return nil, err
	}
	if len(in.CiphertextBlob) < 1 || len(in.CiphertextBlob) > 6144 {
		return nil, failure{400, "ValidationException", "CiphertextBlob"}
	}
	sealed, ok := f.blobs[string(in.CiphertextBlob)]
	if !ok {
		return nil, failure{400, "InvalidCiphertextException", ""}
	}
	if in.KeyId != "" {
		id, err := f.key(in.KeyId)
		if err != nil {
			return nil, err
		}
		if id != sealed.keyID {
			return nil, failure{400, "IncorrectKeyException", "The key ID in the request does not identify a CMK that can perform this operation."}
		}
	}
	if !maps.Equal(in.EncryptionContext, sealed.context) {
		return nil, failure{400, "InvalidCiphertextException", ""}
	}
	return map[string]any{"Plaintext": sealed.plain, "KeyId": arn(sealed.keyID), "EncryptionAlgorithm": "SYMMETRIC_DEFAULT"}, nil
}

// key resolves a key ID, an alias or the ARN of a key.
func (f *fakeKMS) key(id string) (string, error) {
	if id == "" {
		return "", failure{400, "ValidationException", "KeyId"}
	}
	if found, ok := f.keys[strings.TrimPrefix(id, arn(""))]; ok {
		return found, nil
	}
	return "", failure{400, "NotFoundException", fmt.Sprintf("Key '%s' does not exist", arn(id))}
}

// pointAlias points an alias to a key.
func (f *fakeKMS) pointAlias(alias, id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keys[alias] = id
}

// failNext makes the next requests fail.
func (f *fakeKMS) failNext(failures ...failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failures = failures
}

func (f *fakeKMS) decrypts() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.decrypt
}

func arn(id string) string { return "arn:aws:kms:eu-central-1:123456789012:key/" + id }

// decodeStrict rejects unknown members.
func decodeStrict(body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	return d.Decode(into)
}
