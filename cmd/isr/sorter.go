package main

import (
	"bufio"
	"cmp"
	"container/heap"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/facetheory/isr/internal/admin"
)

// A sorter sorts any number of pages in bounded memory, by an external merge sort:
//
//	add ──► held ──(runPages)──► sorted runs in a temporary file ──► merge
//
// The file has no name and is gone with the process. Few pages never reach it. If no folder takes a file, such as in a
// container whose file system is read-only, more pages are held in memory.
type sorter struct {
	compare func(a, b *admin.Page) int
	limit   int      // only so many pages are wanted, the first ones; 0 means all
	folders []string // where the file may be, the best first; empty for the system's folder of temporary files

	held    []admin.Page
	file    *os.File // nil before the first run
	fileErr error    // why there is no file; nil if none was needed yet
	end     int64    // of the runs in file
	runs    []sortedRun
}

// A sortedRun is a part of the temporary file.
type sortedRun struct{ begin, end int64 }

const (
	// runPages is how many pages are held in memory, some 10 MB.
	runPages = 8192
	// maxHeld is how many are, if there is no file.
	maxHeld = 8 * runPages
	// runBuffer is how much of each run is read at once, in bytes.
	runBuffer = 16 << 10
)

// add adds a page.
func (s *sorter) add(p admin.Page) error {
	s.held = append(s.held, p)
	most := runPages
	if s.fileErr != nil {
		most = maxHeld
	}
	if len(s.held) < most {
		return nil
	}
	s.sortHeld()
	if len(s.held) <= most/2 {
		return nil // the limit leaves room for more
	}
	if s.file == nil && s.fileErr == nil {
		s.file, s.fileErr = temporaryFile(s.folders)
		if s.fileErr != nil {
			return nil
		}
	}
	err := s.fileErr
	if err == nil {
		err = s.spill()
	}
	if err != nil {
		return fmt.Errorf("sort more than %d pages in a temporary file: %w; make one of the folders writable, or use --sort none", most, err)
	}
	return nil
}

// temporaryFile returns a file without a name in the first of the folders that takes one.
func temporaryFile(folders []string) (*os.File, error) {
	var all []error
	for _, folder := range folders {
		f, err := os.CreateTemp(folder, "isr-ls-")
		if err != nil {
			all = append(all, err)
			continue
		}
		return f, os.Remove(f.Name())
	}
	return nil, errors.Join(all...)
}

// sortHeld sorts the pages in memory, of which those beyond the limit are dropped.
func (s *sorter) sortHeld() {
	slices.SortStableFunc(s.held, func(a, b admin.Page) int { return s.compare(&a, &b) })
	if s.limit > 0 && len(s.held) > s.limit {
		clear(s.held[s.limit:])
		s.held = s.held[:s.limit]
	}
}

// spill writes the sorted pages in memory to the file, as a run.
func (s *sorter) spill() error {
	to := bufio.NewWriter(io.NewOffsetWriter(s.file, s.end))
	encoder := gob.NewEncoder(to)
	for i := range s.held {
		if err := encoder.Encode(&s.held[i]); err != nil {
			return err
		}
	}
	if err := to.Flush(); err != nil {
		return err
	}
	end, err := s.file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	s.runs = append(s.runs, sortedRun{s.end, end})
	s.end = end
	clear(s.held)
	s.held = s.held[:0]
	return nil
}

// each yields all pages in order, up to the limit.
func (s *sorter) each(yield func(admin.Page, error) bool) {
	s.sortHeld()
	merged, err := s.merge()
	for n := 0; err == nil && len(merged.sources) > 0 && (s.limit == 0 || n < s.limit); n++ {
		if !yield(merged.sources[0].page, nil) {
			return
		}
		err = merged.advance()
	}
	if err != nil {
		yield(admin.Page{}, fmt.Errorf("read the temporary file of sorted pages: %w", err))
	}
}

// merge returns a merger of all runs and of the pages in memory.
func (s *sorter) merge() (*merger, error) {
	m := &merger{compare: s.compare}
	for _, r := range s.runs {
		decoder := gob.NewDecoder(bufio.NewReaderSize(io.NewSectionReader(s.file, r.begin, r.end-r.begin), runBuffer))
		err := m.open(func(p *admin.Page) error { return decoder.Decode(p) })
		if err != nil {
			return nil, err
		}
	}
	rest := s.held
	err := m.open(func(p *admin.Page) error {
		if len(rest) == 0 {
			return io.EOF
		}
		*p, rest = rest[0], rest[1:]
		return nil
	})
	heap.Init(m)
	return m, err
}

// A merger merges sorted sources: a heap, of which the first source has the next page.
type merger struct {
	compare func(a, b *admin.Page) int
	sources []*source
	opened  int
}

// A source has a page, and reads the next one.
type source struct {
	page  admin.Page
	read  func(*admin.Page) error // io.EOF after the last one
	order int                     // of sources with equal pages
}

// open adds a source, unless it is empty.
func (m *merger) open(read func(*admin.Page) error) error {
	m.opened++
	next := &source{read: read, order: m.opened}
	switch err := read(&next.page); {
	case err == nil:
		m.sources = append(m.sources, next)
	case !errors.Is(err, io.EOF):
		return err
	}
	return nil
}

// advance goes on to the next page.
func (m *merger) advance() error {
	first := m.sources[0]
	first.page = admin.Page{} // a decoder leaves out what is zero
	switch err := first.read(&first.page); {
	case err == nil:
		heap.Fix(m, 0)
	case errors.Is(err, io.EOF):
		heap.Pop(m)
	default:
		return err
	}
	return nil
}

// Len, Less, Swap, Push and Pop implement [heap.Interface].
func (m *merger) Len() int { return len(m.sources) }

func (m *merger) Less(i, j int) bool {
	a, b := m.sources[i], m.sources[j]
	return cmp.Or(m.compare(&a.page, &b.page), cmp.Compare(a.order, b.order)) < 0
}

func (m *merger) Swap(i, j int) { m.sources[i], m.sources[j] = m.sources[j], m.sources[i] }

func (m *merger) Push(x any) { m.sources = append(m.sources, x.(*source)) }

func (m *merger) Pop() any {
	last := m.sources[len(m.sources)-1]
	m.sources = m.sources[:len(m.sources)-1]
	return last
}

// close gives the file back to the system.
func (s *sorter) close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}
