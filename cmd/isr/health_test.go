package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/facetheory/isr/cmd/isr/cli"
)

// A server that logs that it serves is ready: scripts wait for this line.
func TestServingIsReady(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var address, report string
	logged := writerFunc(func(line []byte) (int, error) {
		if m := regexp.MustCompile(`msg="health on (\S+)"`).FindSubmatch(line); m != nil {
			address = string(m[1])
		}
		if bytes.Contains(line, []byte(`msg="serving http://`)) {
			resp, err := http.Get(address)
			if err != nil {
				report = err.Error()
			} else {
				body, err := io.ReadAll(resp.Body)
				report = fmt.Sprint(resp.StatusCode, string(body), err)
				_ = resp.Body.Close()
			}
			stop()
		}
		return len(line), nil
	})
	args := []string{"serve", "--demo", "--listen", "127.0.0.1:0", "--health", "127.0.0.1:0", "--admin", "none", "--data", t.TempDir()}
	if code := execute(ctx, args, &cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: logged}); code != 0 {
		t.Errorf("the server ends with %d", code)
	}
	if !strings.HasPrefix(report, `200{"status":"ready"}`) {
		t.Errorf("/readyz when the server logs that it serves: %s", report)
	}
}

// A writerFunc is a function that is an io.Writer.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
