package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/facetheory/isr/gateway/admin"
)

// A firstWrite calls wrote on each write.
type firstWrite struct {
	bytes.Buffer
	wrote func()
}

func (f *firstWrite) Write(p []byte) (int, error) {
	f.wrote()
	return f.Buffer.Write(p)
}

// A long list is written in aligned blocks as it arrives, and is never completely in memory.
func TestListIsStreamed(t *testing.T) {
	const pages = 2*listBlock + 1
	wrote := make(chan struct{})
	out := &firstWrite{wrote: sync.OnceFunc(func() { close(wrote) })}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lines := json.NewEncoder(w)
		for i := range pages {
			if i == pages-1 { // the list ends only after the first write
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
	ls := &lsCommand{Sort: "none"}
	if err := ls.writeTable(&streams{out: out, err: new(bytes.Buffer)}, ls.pages(client.Pages(t.Context()), nil)); err != nil {
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

// Pages are sorted, up to maxSorted.
func TestListOrder(t *testing.T) {
	list := func(n int) iter.Seq2[admin.Page, error] {
		return func(yield func(admin.Page, error) bool) {
			for i := range n {
				k := i * 7919 % n // in no order
				if !yield(admin.Page{Key: fmt.Sprintf("example.com/%06d", k), AgeSeconds: int64(k), BodyBytes: int64(n - k)}, nil) {
					return
				}
			}
		}
	}
	keys := func(c lsCommand, all iter.Seq2[admin.Page, error]) (got []string, warned bool) {
		var complaint bytes.Buffer
		for p, err := range c.pages(all, &streams{err: &complaint}) {
			if err != nil {
				got = append(got, err.Error())
				continue
			}
			got = append(got, strings.TrimPrefix(p.Key, "example.com/"))
		}
		return got, complaint.Len() > 0
	}
	for name, tt := range map[string]struct {
		c     lsCommand
		first string
		n     int
	}{
		"key":    {lsCommand{Sort: "key"}, "000000", 5000},
		"age":    {lsCommand{Sort: "age", Limit: 10}, "004999", 10},
		"size":   {lsCommand{Sort: "size", Limit: 3}, "000000", 3},
		"none":   {lsCommand{Sort: "none", Limit: 2}, "000000", 2},
		"prefix": {lsCommand{Sort: "key", Prefix: "http://example.com/0012"}, "001200", 100},
	} {
		got, warned := keys(tt.c, list(5000))
		if len(got) != tt.n || got[0] != tt.first || warned {
			t.Errorf("%s: %d pages, from %q", name, len(got), got[:min(3, len(got))])
		}
		if tt.c.Sort == "key" && !slices.IsSorted(got) {
			t.Errorf("%s: not sorted", name)
		}
	}
	if got, warned := keys(lsCommand{Sort: "key"}, list(maxSorted+5)); len(got) != maxSorted+5 || !warned {
		t.Errorf("too many to sort: %d, warned: %t", len(got), warned)
	}
	broken := func(yield func(admin.Page, error) bool) {
		_ = yield(admin.Page{Key: "b"}, nil) && yield(admin.Page{Key: "a"}, nil) && yield(admin.Page{}, errors.New("broke off"))
	}
	if got, _ := keys(lsCommand{Sort: "key"}, broken); !slices.Equal(got, []string{"a", "b", "broke off"}) {
		t.Errorf("a list that breaks off: %q", got)
	}
}
