package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"sync"

	"github.com/facetheory/isr/store"
)

// A warmState is the file of the pages that a warm-up has done: a line that names its list, and then
// a key in each line. A line that a crash has cut off is ignored, so that its page is done again.
type warmState struct {
	path string
	done map[string]bool // by earlier runs; not changed

	mu   sync.Mutex
	file *os.File // guarded by mu
}

// openState opens the file of --state, and reads what earlier runs have done.
func (w *warming) openState() error {
	if w.c.State == "" {
		return nil
	}
	head := fmt.Sprintf("isr warm: sitemap=%q from=%q tag=%q tenant=%q force=%t queue=%q", w.c.Sitemap, w.c.From, w.c.Tag, w.c.Tenant, w.c.Force, w.c.Queue)
	file, err := os.OpenFile(w.c.State, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	state := &warmState{path: w.c.State, file: file, done: make(map[string]bool)}
	end, err := state.read(head)
	if err == nil {
		err = errors.Join(file.Truncate(end), seek(file, end))
	}
	if err == nil && end == 0 {
		_, err = fmt.Fprintln(file, head)
	}
	if err != nil {
		_ = file.Close()
		return fmt.Errorf("--state %s: %w", w.c.State, err)
	}
	w.state = state
	return nil
}

func seek(file *os.File, at int64) error {
	_, err := file.Seek(at, io.SeekStart)
	return err
}

// read reads the file, and returns where its last complete line ends.
func (s *warmState) read(head string) (end int64, err error) {
	in := bufio.NewReaderSize(s.file, 4*store.MaxKeyLength)
	for n := 0; ; n++ {
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			return end, nil // what follows the last line was cut off
		case err != nil:
			return 0, fmt.Errorf("line %d: %w; it is not a file of isr warm", n+1, err)
		}
		text := strings.TrimSuffix(string(line), "\n")
		switch {
		case n == 0 && text != head:
			return 0, fmt.Errorf("it is of another list (%.200s); delete it, or give another file", text)
		case n > maxWarmPages:
			return 0, fmt.Errorf("it has more than %d pages", maxWarmPages)
		case n > 0:
			s.done[text] = true
		}
		end += int64(len(line))
	}
}

// add records that a page is done. A nil state records nothing.
func (s *warmState) add(k store.Key) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.file.WriteString(k.String() + "\n"); err != nil {
		return fmt.Errorf("--state %s: %w", s.path, err)
	}
	return nil
}

// closeState closes the file, and deletes it if all pages are done.
func (w *warming) closeState(complete bool) error {
	if w.state == nil {
		return nil
	}
	err := w.state.file.Close()
	if complete {
		err = errors.Join(err, os.Remove(w.state.path))
	}
	return err
}

// textLines yields the lines of a text that are not empty, without surrounding spaces. of names it.
func textLines(in io.Reader, of string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, maxTargetLine)
		number := 0
		for ; lines.Scan(); number++ {
			text := lines.Text()
			if number == 0 {
				text = strings.TrimPrefix(text, "\ufeff") // the byte order mark of some editors
			}
			if text = strings.TrimSpace(text); text != "" && !yield(text, nil) {
				return
			}
		}
		switch err := lines.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			yield("", fmt.Errorf("%s: line %d is longer than %d bytes", of, number+1, maxTargetLine))
		case err != nil:
			yield("", fmt.Errorf("%s: %w", of, err))
		}
	}
}
