package gateway

import (
	"context"
	"errors"
	"net/http/httptrace"
	"net/textproto"
)

// maxInterim bounds the interim responses (1xx) to one request: hints come once or
// twice.
const maxInterim = 16

var errInterim = errors.New("the origin sends interim responses without end")

// boundInterim has a request fail whose origin sends too many interim responses. The
// transport leaves it to whoever looks at them to bound them, and a reverse proxy
// passes them all on.
func boundInterim(ctx context.Context) context.Context {
	seen := 0 // by the one goroutine that reads the connection
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
		if seen++; seen > maxInterim {
			return errInterim
		}
		return nil
	}})
}
