package gateway

import (
	"io"
	"net/http"
	"sync"
)

// eventStreams are the event streams of an origin that are being sent (see [httpcache.IsEndless]). They do not end by
// themselves, and their clients connect again when they end. There are no more than connections to the origin.
type eventStreams struct {
	mu      sync.Mutex
	open    map[*eventStream]struct{}
	drained bool
}

// add returns the body of an event stream that ends when the streams are drained.
func (s *eventStreams) add(body io.ReadCloser) io.ReadCloser {
	stream := &eventStream{ReadCloser: body, of: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drained {
		_ = body.Close() // of a stream that nobody reads
		return http.NoBody
	}
	if s.open == nil {
		s.open = make(map[*eventStream]struct{})
	}
	s.open[stream] = struct{}{}
	return stream
}

// drain ends the streams, and those that begin from now on.
func (s *eventStreams) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drained = true
	for stream := range s.open {
		_ = stream.ReadCloser.Close() // ends a Read that waits
	}
}

func (s *eventStreams) isDrained() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drained
}

// An eventStream is the body of an event stream.
type eventStream struct {
	io.ReadCloser
	of *eventStreams
}

func (b *eventStream) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && b.of.isDrained() {
		err = io.EOF // the response is complete
	}
	return n, err
}

func (b *eventStream) Close() error {
	b.of.mu.Lock()
	delete(b.of.open, b)
	b.of.mu.Unlock()
	return b.ReadCloser.Close()
}
