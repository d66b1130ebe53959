// Package doctor examines an installation: origins, clocks, table, bucket, queues, disk, limits,
// proxies, and the nodes of a fleet. Package leak, below it, examines the site as its visitors
// see it.
//
// A [Check] looks at one of these and returns findings, each with what was seen and what to do
// about it. Checks run concurrently, do not know each other, and are bounded in time: one that
// hangs or fails takes nothing from the others. What they return is redacted, so that a report
// can be shown to others.
package doctor

// The files:
//
//   - doctor.go: runs the checks
//   - origin.go, clock.go, table.go, bucket.go, queue.go, disk.go, fleet.go: a subject each
//   - process.go: limits of the process, proxies
//   - redact.go: removes secrets

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// A Severity is how bad a finding is.
type Severity string

// The severities.
const (
	Fault   Severity = "fault"   // it does not work, or loses data
	Warning Severity = "warning" // it works worse than it could, or will fail
	Note    Severity = "note"    // worth knowing, or not examined
	OK      Severity = "ok"
)

// A Finding is what a check has found.
type Finding struct {
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	What     string   `json:"what"`               // one sentence
	Evidence []string `json:"evidence,omitempty"` // what was seen
	Do       string   `json:"do,omitempty"`       // the command or the line of configuration that helps
}

// A Check examines one subject.
type Check struct {
	Name string
	// Run returns the findings. It should return when ctx ends; otherwise it is abandoned.
	Run func(ctx context.Context) []Finding
}

// Bounds of a run.
const (
	// DefaultLimit is the time limit of the checks.
	DefaultLimit = 20 * time.Second
	// hurry is how long before the limit the context of a check ends, so that it can still
	// report what it has found.
	hurry = time.Second
	// maxFindings bounds the findings of a check, and maxEvidence the lines of a finding.
	maxFindings = 50
	maxEvidence = 8
)

// A Report is the result of checks.
type Report struct {
	Findings []Finding `json:"findings"`
}

// Count returns how many findings have a severity.
func (r *Report) Count(s Severity) (n int) {
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}

// Add appends findings, redacted.
func (r *Report) Add(redact *Redactor, findings ...Finding) {
	for _, f := range findings {
		f.What, f.Do = redact.Text(f.What), redact.Text(f.Do)
		evidence := f.Evidence
		f.Evidence = nil
		for i, line := range evidence {
			if i == maxEvidence {
				f.Evidence = append(f.Evidence, fmt.Sprintf("and %d more", len(evidence)-i))
				break
			}
			f.Evidence = append(f.Evidence, redact.Text(line))
		}
		r.Findings = append(r.Findings, f)
	}
}

// Run executes checks concurrently, each for at most limit; zero means DefaultLimit. The
// findings are in the order of the checks.
func Run(ctx context.Context, limit time.Duration, redact *Redactor, checks ...Check) *Report {
	if limit <= 0 {
		limit = DefaultLimit
	}
	results := make([]chan []Finding, len(checks))
	bounded, cancel := context.WithTimeout(ctx, max(limit-hurry, limit/2))
	defer cancel()
	for i, c := range checks {
		results[i] = make(chan []Finding, 1)
		go func() { results[i] <- c.Run(bounded) }()
	}
	report := &Report{Findings: []Finding{}}
	over := time.NewTimer(limit)
	defer over.Stop()
	late := false
	for i, c := range checks {
		if !late {
			select {
			case found := <-results[i]:
				report.add(redact, c.Name, found)
				continue
			case <-over.C:
				late = true
			}
		}
		select {
		case found := <-results[i]:
			report.add(redact, c.Name, found)
		default:
			report.add(redact, c.Name, []Finding{{
				Severity: Warning, What: fmt.Sprintf("not examined: no result within %s", limit), Do: "look for what hangs: a network, or a disk that does not answer",
			}})
		}
	}
	return report
}

// rank orders the findings of a check.
func rank(s Severity) int { return slices.Index([]Severity{OK, Fault, Warning, Note}, s) }

func (r *Report) add(redact *Redactor, check string, found []Finding) {
	for i := range found {
		found[i].Check = check
	}
	slices.SortStableFunc(found, func(a, b Finding) int { return cmp.Compare(rank(a.Severity), rank(b.Severity)) })
	if more := len(found) - maxFindings; more > 0 {
		found = append(found[:maxFindings], Finding{Check: check, Severity: Note, What: fmt.Sprintf("%d more findings are left out", more)})
	}
	r.Add(redact, found...)
}
