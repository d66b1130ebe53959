package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/admin"
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
	if err := ls.writeTable(&cli.Streams{Out: out, Err: new(bytes.Buffer)}, ls.pages(client.Pages(t.Context()))); err != nil {
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

// A list in no order, of n pages that differ in all that a list is sorted by.
func scattered(n int) iter.Seq2[admin.Page, error] {
	return func(yield func(admin.Page, error) bool) {
		for i := range n {
			k := i * 7919 % n
			p := admin.Page{
				Key: fmt.Sprintf("example.com/%06d", k), Partition: "CACHE#1", State: "fresh", AgeSeconds: int64(k), BodyBytes: int64(n - k),
				GeneratedAt: time.Date(2026, 11, 24, 12, 0, k%60, 0, time.UTC), Tags: []string{"a", "b"}, LeaseFailures: k % 2,
			}
			if !yield(p, nil) {
				return
			}
		}
	}
}

// Pages are sorted, also those that do not fit into memory.
func TestListOrder(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	const many = 3*runPages + 5 // 7919 does not divide it
	for name, tt := range map[string]struct {
		c     lsCommand
		first int // of the pages by their keys
		n     int
	}{
		"key":               {lsCommand{Sort: "key"}, 0, many},
		"age":               {lsCommand{Sort: "age", Limit: 10}, many - 1, 10},
		"size":              {lsCommand{Sort: "size", Limit: 3}, 0, 3},
		"a long limit":      {lsCommand{Sort: "age", Limit: runPages + 1}, many - 1, runPages + 1},
		"a limit of nearly": {lsCommand{Sort: "key", Limit: runPages/2 + 1}, 0, runPages/2 + 1},
		"none":              {lsCommand{Sort: "none", Limit: 2}, 0, 2},
		"prefix":            {lsCommand{Sort: "key", Prefix: "http://example.com/0012"}, 1200, 100},
	} {
		var got []string
		for p, err := range tt.c.pages(scattered(many)) {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got = append(got, p.Key)
		}
		if len(got) != tt.n || got[0] != fmt.Sprintf("example.com/%06d", tt.first) {
			t.Errorf("%s: %d pages, from %q", name, len(got), got[:min(3, len(got))])
		}
		if tt.c.Sort == "age" {
			slices.Reverse(got)
		}
		if tt.c.Sort != "none" && !slices.IsSorted(got) {
			t.Errorf("%s: not sorted", name)
		}
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("temporary files remain: %v, error %v", left, err)
	}
}

// Pages that were sorted in the temporary file have lost nothing.
func TestSortedPagesAreWhole(t *testing.T) {
	const many = runPages + 1
	want := slices.Collect(pagesOf(scattered(many)))
	slices.SortFunc(want, func(a, b admin.Page) int { return strings.Compare(a.Key, b.Key) })
	got := slices.Collect(pagesOf((&lsCommand{Sort: "key"}).pages(scattered(many))))
	for i := range want {
		before, _ := json.Marshal(want[i])
		after, _ := json.Marshal(got[i])
		if !bytes.Equal(before, after) {
			t.Fatalf("sorted as %s, expected %s", after, before)
		}
	}
}

func pagesOf(list iter.Seq2[admin.Page, error]) iter.Seq[admin.Page] {
	return func(yield func(admin.Page) bool) {
		for p, err := range list {
			if err != nil || !yield(p) {
				return
			}
		}
	}
}

// A list that breaks off is shown as far as it came, with the error at its end.
func TestListThatBreaksOff(t *testing.T) {
	broken := func(yield func(admin.Page, error) bool) {
		_ = yield(admin.Page{Key: "b"}, nil) && yield(admin.Page{Key: "a"}, nil) && yield(admin.Page{}, errors.New("broke off"))
	}
	var got []string
	for p, err := range (&lsCommand{Sort: "key"}).pages(broken) {
		if err != nil {
			p.Key = err.Error()
		}
		got = append(got, p.Key)
	}
	if !slices.Equal(got, []string{"a", "b", "broke off"}) {
		t.Errorf("a list that breaks off: %q", got)
	}
}

// Without a folder for temporary files, pages are sorted in the data folder; without that, in memory, up to a
// bound.
func TestListWithoutTemporaryFolder(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	t.Setenv("TMPDIR", missing)
	list := func(data string, many int) (n int, sorted bool, last error) {
		c, before := &lsCommand{Sort: "key"}, ""
		c.Data, sorted = data, true
		for p, err := range c.pages(scattered(many)) {
			n, last, sorted = n+1, err, sorted && (err != nil || p.Key >= before)
			before = p.Key
		}
		return n, sorted, last
	}
	data := t.TempDir()
	if n, sorted, err := list(data, maxHeld+1); n != maxHeld+1 || !sorted || err != nil {
		t.Errorf("in the data folder: %d pages, sorted: %v, error %v", n, sorted, err)
	}
	if left, err := os.ReadDir(data); err != nil || len(left) > 0 {
		t.Errorf("temporary files remain: %v, error %v", left, err)
	}
	if n, sorted, err := list(missing, 2*runPages); n != 2*runPages || !sorted || err != nil {
		t.Errorf("in memory: %d pages, sorted: %v, error %v", n, sorted, err)
	}
	n, _, err := list(missing, maxHeld+1)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "--sort none") || n != maxHeld+1 {
		t.Errorf("beyond the bound: %d, error %v", n, err)
	}
}
