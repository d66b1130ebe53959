package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/facetheory/isr/gateway/admin"
)

// A firstWrite says when something is written.
type firstWrite struct {
	bytes.Buffer
	wrote func()
}

func (f *firstWrite) Write(p []byte) (int, error) {
	f.wrote()
	return f.Buffer.Write(p)
}

// A long list is shown as it comes, in blocks that are aligned each, and is never
// in memory as a whole.
func TestListIsShownAsItComes(t *testing.T) {
	const pages = 2*listBlock + 1
	wrote := make(chan struct{})
	out := &firstWrite{wrote: sync.OnceFunc(func() { close(wrote) })}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lines := json.NewEncoder(w)
		for i := range pages {
			if i == pages-1 { // the list does not end before some of it is shown
				_ = http.NewResponseController(w).Flush()
				select {
				case <-wrote:
				case <-r.Context().Done():
				}
			}
			if err := lines.Encode(admin.Page{Key: fmt.Sprint("example.com/", i), State: "fresh"}); err != nil {
				t.Error(err)
			}
		}
	}))
	defer server.Close()
	client, err := admin.NewClient(server.URL, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeTable(t.Context(), &streams{out: out, err: new(bytes.Buffer)}, client); err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(rows) != pages+1 || !strings.HasPrefix(rows[0], "STATE") || !strings.HasSuffix(rows[pages], "example.com/"+fmt.Sprint(pages-1)) {
		t.Errorf("%d rows, from %q to %q", len(rows), rows[0], rows[len(rows)-1])
	}
	if column := strings.Index(rows[1], "example.com"); strings.Index(rows[listBlock-1], "example.com") != column {
		t.Errorf("the rows of a block are not aligned: %q and %q", rows[1], rows[listBlock-1])
	}
}
