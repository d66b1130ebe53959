package telemetry

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"sync"
)

// RequestIDs is which responses name their request, in X-Request-Id.
type RequestIDs string

// The values of RequestIDs. Unless it is RequestIDsOff, or empty, each request has an id: the value
// of its X-Request-Id, or one that is made when it is first asked for.
const (
	RequestIDsAlways RequestIDs = "always"
	RequestIDsMisses RequestIDs = "misses" // all but hits, and errors
	RequestIDsErrors RequestIDs = "errors" // those with a status from 400 on
	RequestIDsOff    RequestIDs = "off"
)

// requestIDHeader is the header of the id, in canonical form.
const requestIDHeader = "X-Request-Id"

// maxRequestID bounds an id, in bytes.
const maxRequestID = 128

// validRequestID reports whether an id can be taken from a request: 1 to 128 letters, digits
// and . _ : + / = -, so that it needs no escaping in a log, a URL or a page.
func validRequestID(id string) bool {
	if id == "" || len(id) > maxRequestID {
		return false
	}
	for i := range len(id) {
		switch c := id[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == ':', c == '+', c == '/', c == '=', c == '-':
		default:
			return false
		}
	}
	return true
}

// idBatch is how many ids are made at once: a hit costs a part of two allocations.
const idBatch = 64

// An idSource makes ids of 128 random bits, in hexadecimal.
type idSource struct{ batches sync.Pool } // of *[]string

// next returns a header field with an id of its own.
func (s *idSource) next() []string {
	batch, _ := s.batches.Get().(*[]string)
	if batch == nil {
		batch = new([]string)
	}
	if len(*batch) == 0 {
		*batch = newIDs()
	}
	id := (*batch)[:1:1]
	*batch = (*batch)[1:]
	s.batches.Put(batch)
	return id
}

func newIDs() []string {
	var random [16 * idBatch]byte
	_, _ = rand.Read(random[:]) // never fails
	text, ids := hex.EncodeToString(random[:]), make([]string, idBatch)
	for i := range ids {
		ids[i] = text[32*i : 32*(i+1)]
	}
	return ids
}

// of returns the field with the id of a request. The caller has removed an id that it does not
// trust.
func (s *idSource) of(r *http.Request) []string {
	if id := r.Header[requestIDHeader]; len(id) == 1 && validRequestID(id[0]) {
		return id
	}
	return s.next()
}
