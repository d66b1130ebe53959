package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// sampleLife is how long a sample of the sources is used again, so that many scrapers
	// cost no more than one.
	sampleLife = time.Second
	// sampleTime bounds the wait of a scrape for the sources. A scrape that does not get a
	// sample has the last one.
	sampleTime = 2 * time.Second
)

// A sampler takes samples of sources, one at a time.
type sampler struct {
	take func() []prometheus.Metric

	mu      sync.Mutex
	last    []prometheus.Metric // guarded by mu
	taken   time.Time           // guarded by mu: when last was taken
	running chan struct{}       // guarded by mu: closed when the sample in progress is taken; nil if there is none
}

// sample returns a sample that is at most sampleLife old, or the last one if the sources do
// not answer in time.
func (s *sampler) sample() []prometheus.Metric {
	s.mu.Lock()
	if !s.taken.IsZero() && time.Since(s.taken) < sampleLife {
		defer s.mu.Unlock()
		return s.last
	}
	if s.running == nil {
		s.running = make(chan struct{})
		go s.run(s.running)
	}
	running := s.running
	s.mu.Unlock()
	timer := time.NewTimer(sampleTime)
	defer timer.Stop()
	select {
	case <-running:
	case <-timer.C:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// run takes one sample. A source that never answers keeps this one goroutine.
func (s *sampler) run(done chan struct{}) {
	defer close(done)
	taken := s.take()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.taken, s.running = taken, time.Now(), nil
}
