package assess

import "time"

// maxBuckets is the largest number of buckets of a series.
const maxBuckets = 240

// A series counts over time, in a bounded number of buckets, which become wider as time goes on. The zero value
// is empty.
type series struct {
	from    time.Time
	width   time.Duration
	buckets []float64
}

// add adds n at a time. Times before the first one count as the first one.
func (s *series) add(t time.Time, n float64) {
	if s.width == 0 {
		s.from, s.width = t, time.Second
	}
	since := max(t.Sub(s.from), 0)
	for since/s.width >= maxBuckets {
		s.widen()
	}
	for len(s.buckets) <= int(since/s.width) {
		s.buckets = append(s.buckets, 0)
	}
	s.buckets[since/s.width] += n
}

// widen merges each two buckets.
func (s *series) widen() {
	for i := range s.buckets {
		if i%2 == 0 {
			s.buckets[i/2] = s.buckets[i]
		} else {
			s.buckets[i/2] += s.buckets[i]
		}
	}
	s.buckets = s.buckets[:(len(s.buckets)+1)/2]
	s.width *= 2
}

// alignTo gives the series the buckets of another one, which began at the same time or before it and is as long.
func (s *series) alignTo(other *series) {
	aligned := series{from: other.from, width: other.width, buckets: make([]float64, len(other.buckets))}
	for i, n := range s.buckets {
		at := s.from.Add(time.Duration(i)*s.width).Sub(other.from) / other.width
		aligned.buckets[min(max(int(at), 0), len(aligned.buckets)-1)] += n
	}
	*s = aligned
}
