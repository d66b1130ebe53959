package isr

import (
	"bytes"
	"compress/gzip"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"

	"github.com/facetheory/isr/internal/coding"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

// rendered returns the rendering of a body that is written in small parts.
func rendered(t *testing.T, coding string, body []byte) *response {
	t.Helper()
	rec := &recorder{
		header: make(http.Header), ended: make(chan struct{}), stream: &stream{},
		call: rendererCall{maxBody: 8 << 20, judge: func(int, http.Header, []string) httpcache.Verdict { return httpcache.Verdict{Revalidate: 1} }},
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
	if got.response == nil {
		t.Fatalf("not rendered: %v, %s", got.failure, got.refused)
	}
	return got.response
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
		got := rendered(t, coding, body).body
		if !bytes.Equal(got, plain) {
			t.Fatalf("coding %q: another body", coding)
		}
		if spare := cap(got) - len(got); spare > len(got)/8 {
			t.Errorf("coding %q: a body of %d bytes holds %d more", coding, len(got), spare)
		}
	}
}

// The weight of a page counts the capacity of its slices, not their length.
func TestWeightCountsCapacity(t *testing.T) {
	body := make([]byte, 10_000, 30_000)
	p := newPage(store.Key{Text: "h/"}, store.Entry{Tags: []string{string(make([]byte, 5_000))}}, store.PurgeState{}, reading{}, body, new(presentation))
	if w := int(p.weight()); w < 30_000+5_000 || w > 30_000+5_000+4<<10 {
		t.Errorf("weight %d of a page that holds 30,000 bytes of body and 5,000 of tags", w)
	}
}

// The weight of a page in memory includes the codings that it got since.
func TestWeightCountsCodings(t *testing.T) {
	c := new(Cache)
	var err error
	if c.memory, err = newMemory(1<<20, &c.floor, nil); err != nil {
		t.Fatal(err)
	}
	if c.unpublished, err = newUnpublishedPages(1<<20, c); err != nil {
		t.Fatal(err)
	}
	if c.negative, err = newNegativeCache(1<<20, c); err != nil {
		t.Fatal(err)
	}
	p := testPage(nil)
	c.memory.put(p, new(flight))
	c.memory.pages.CleanUp()
	before := c.memory.pages.WeightedSize()
	newCoder(c, nil).attach(p, coding.Has{}, coding.Set{httpcache.Gzip: make([]byte, 5_000, 7_000)})
	c.memory.pages.CleanUp()
	if grown := c.memory.pages.WeightedSize() - before; grown != 7_000+codingOverhead {
		t.Errorf("the weight grew by %d for a coding of 7,000 bytes", grown)
	}
}
