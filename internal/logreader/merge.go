package logreader

import (
	"container/heap"
	"errors"
	"io"
)

// Merge returns a reader of the entries of several logs, in the order of their times: rotated files in any
// order, and the files of several servers. The entries of one log stay in its order.
func Merge(readers []*Reader) *Merged { return &Merged{all: readers} }

// A Merged reads several logs. It is used by one goroutine.
type Merged struct {
	all     []*Reader
	waiting queue // nil until the first call of Next
}

// Next reads the next entry into e. It returns io.EOF after the last one.
func (m *Merged) Next(e *Entry) error {
	if m.waiting == nil {
		m.waiting = make(queue, 0, len(m.all))
		for i, r := range m.all {
			if err := m.add(&head{reader: r, index: i}); err != nil {
				return err
			}
		}
	}
	if len(m.waiting) == 0 {
		return io.EOF
	}
	first := m.waiting[0]
	*e = first.entry
	heap.Pop(&m.waiting)
	return m.add(first)
}

// add reads the next entry of a log.
func (m *Merged) add(h *head) error {
	err := h.reader.Next(&h.entry)
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	heap.Push(&m.waiting, h)
	return nil
}

// Lines returns how many lines were read, and how many are no entries, with the first of them.
func (m *Merged) Lines() (lines, invalid int64, examples []Example) {
	for _, r := range m.all {
		lines += r.Lines
		invalid += r.Invalid
		examples = append(examples, r.Examples[:min(len(r.Examples), maxExamples-len(examples))]...)
	}
	return lines, invalid, examples
}

// A head is the next entry of a log.
type head struct {
	reader *Reader
	index  int
	entry  Entry
}

// A queue is a heap of the next entries.
type queue []*head

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool {
	if a, b := q[i].entry.Time, q[j].entry.Time; !a.Equal(b) {
		return a.Before(b)
	}
	return q[i].index < q[j].index
}

func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

func (q *queue) Push(x any) { *q = append(*q, x.(*head)) }

func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
