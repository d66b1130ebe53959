package render

import (
	"bytes"
	"compress/gzip"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"

	"github.com/facetheory/isr/internal/httpcache"
)

// rendered returns the rendering of a body that is written in small parts.
func rendered(t *testing.T, coding string, body []byte) *Response {
	t.Helper()
	rec := &Recorder{
		header: make(http.Header), ended: make(chan struct{}), stream: &Stream{},
		call: Call{MaxBody: 8 << 20, Judge: func(int, http.Header, []string) httpcache.Verdict { return httpcache.Verdict{Revalidate: 1} }},
	}
	if coding != "" {
		rec.header.Set("Content-Encoding", coding)
	}
	for part := range slices.Chunk(body, 1000) {
		if _, err := rec.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	rec.end(rec.complete())
	got := rec.result()
	if got.Response == nil {
		t.Fatalf("not rendered: %v, %s", got.Failure, got.Refused)
	}
	return got.Response
}

// A kept body does not hold the spare capacity of its buffer.
func TestBodiesHoldNoMoreThanTheirContent(t *testing.T) {
	plain := make([]byte, 1<<20+1) // a buffer that doubles has nearly twice that
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(plain)
	var coded bytes.Buffer
	zw := gzip.NewWriter(&coded)
	_, _ = zw.Write(plain)
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	for coding, body := range map[string][]byte{"": plain, "gzip": coded.Bytes()} {
		got := rendered(t, coding, body).Body
		if !bytes.Equal(got, plain) {
			t.Fatalf("coding %q: another body", coding)
		}
		if spare := cap(got) - len(got); spare > len(got)/8 {
			t.Errorf("coding %q: a body of %d bytes holds %d more", coding, len(got), spare)
		}
	}
}
