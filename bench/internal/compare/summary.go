package compare

import "slices"

// A Summary is a value over the rounds.
type Summary struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func summary(values []float64) Summary {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return Summary{Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, Min: sorted[0], Max: sorted[n-1]}
}

// summarize fills the summaries from the measurements. Rounds in which any server was measured under foreign
// load count only if fewer than half of the rounds are free of it, so that all servers are judged by the same
// rounds.
func (r *Result) summarize(rounds int) {
	loaded := make(map[int]bool)
	for _, s := range r.Servers {
		for _, m := range s.Measurements {
			if m.marked() {
				loaded[m.Round] = true
			}
		}
	}
	if 2*len(loaded) > rounds {
		clear(loaded)
	}
	for _, s := range r.Servers {
		s.summarize(r.Columns, loaded)
	}
}

// summarize leaves out refused measurements, and rounds with foreign load.
func (s *Server) summarize(columns []Column, loaded map[int]bool) {
	var counted []Sample
	for _, m := range s.Measurements {
		s.Foreign += m.ForeignCPUs / float64(len(s.Measurements))
		if m.marked() {
			s.Marked++
		}
		switch {
		case m.Refused != "":
			s.Refused++
		case !loaded[m.Round]:
			counted = append(counted, m.Values)
		}
	}
	if len(counted) == 0 {
		return
	}
	s.Summary = make(map[string]Summary)
	for _, c := range columns {
		values := make([]float64, len(counted))
		for i, sample := range counted {
			values[i] = sample[c.Key]
		}
		s.Summary[c.Key] = summary(values)
	}
}

// ratio returns the median of the first column, as a multiple of the baseline's; 0 if either is
// unknown.
func (r *Result) ratio(s *Server) float64 {
	for _, other := range r.Servers {
		if base := other.Summary[r.Columns[0].Key].Median; other.Name == r.Baseline && base > 0 {
			return s.Summary[r.Columns[0].Key].Median / base
		}
	}
	return 0
}
