package gateway

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
)

// maxInterim bounds the interim responses (1xx) to one request; origins usually send one or
// two.
const maxInterim = 16

var errInterim = errors.New("the origin sent too many interim responses")

// boundInterim fails a request whose origin sends more than maxInterim interim responses.
// The transport has no such bound if a trace reads them, and a reverse proxy forwards all.
func boundInterim(ctx context.Context) context.Context {
	seen := 0 // used only by the goroutine that reads the connection
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
		if seen++; seen > maxInterim {
			return errInterim
		}
		return nil
	}})
}

// A finalWriter drops interim responses: HTTP/1.0 has none, and its clients would take one for
// the response (RFC 9110, section 15.2).
type finalWriter struct{ http.ResponseWriter }

func (w finalWriter) WriteHeader(status int) {
	if status >= http.StatusOK {
		w.ResponseWriter.WriteHeader(status)
	}
}

func (w finalWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
