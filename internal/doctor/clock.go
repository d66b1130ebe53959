package doctor

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/facetheory/isr/internal/httpcache"
)

const (
	// skewWarning is more than the jitter of time servers and of the seconds of Date.
	skewWarning = 2 * time.Second
	// skewFault is where pages are wrong by more than their freshness windows commonly are,
	// and AWS soon refuses signatures (at five minutes).
	skewFault = time.Minute
)

// A Clock is another clock, with which this machine's clock is compared.
type Clock struct {
	Name string
	// Header asks for it, and returns the header of the response, whatever its status.
	Header func(context.Context) (http.Header, error)
}

// Clocks compares the clock of this machine with others.
func Clocks(clocks []Clock, now func() time.Time) Check {
	return Check{Name: "clock", Run: func(ctx context.Context) []Finding {
		if len(clocks) == 0 {
			return []Finding{{Severity: OK, What: "no other clock to compare with: one machine, and no origin"}}
		}
		results := make([]Finding, len(clocks))
		var asking sync.WaitGroup
		for i, c := range clocks {
			asking.Go(func() { results[i] = c.compare(ctx, now) })
		}
		asking.Wait()
		var found []Finding
		var agree []string
		for i, f := range results {
			if f.Severity == OK {
				agree = append(agree, clocks[i].Name)
				continue
			}
			found = append(found, f)
		}
		if len(agree) > 0 {
			found = append([]Finding{{Severity: OK, What: "agrees with " + strings.Join(agree, ", ")}}, found...)
		}
		return found
	}}
}

func (c Clock) compare(ctx context.Context, now func() time.Time) Finding {
	sent := now()
	h, err := c.Header(ctx)
	received := now()
	if err != nil {
		return Finding{Severity: Note, What: "cannot be compared with " + c.Name, Evidence: []string{err.Error()}}
	}
	date, ok := httpcache.ParseDate(h.Get("Date"))
	if !ok {
		return Finding{Severity: Note, What: c.Name + " sends no Date to compare with", Evidence: []string{fmt.Sprintf("Date: %q", h.Get("Date"))}}
	}
	if h.Get("Age") != "" {
		date = date.Add(httpcache.InitialAge(http.Header{"Age": h["Age"]}, time.Time{}))
	}
	return judgeSkew(c.Name, skew(sent, received, date), "Date: "+h.Get("Date")+", here "+received.UTC().Format(http.TimeFormat))
}

// skew returns how far another clock is ahead of this one, at least: it showed date, without
// its fraction of a second, at some time between sent and received.
func skew(sent, received, date time.Time) time.Duration {
	switch earliest, latest := date.Sub(received), date.Add(time.Second).Sub(sent); {
	case earliest > 0:
		return earliest
	case latest < 0:
		return latest
	}
	return 0
}

// judgeSkew returns the finding of a skew; OK if it is small.
func judgeSkew(name string, d time.Duration, evidence string) Finding {
	if d.Abs() < skewWarning {
		return Finding{Severity: OK, What: "agrees with " + name}
	}
	severity, ahead := Warning, "behind"
	if d.Abs() >= skewFault {
		severity = Fault
	}
	if d < 0 {
		ahead = "ahead of"
	}
	return Finding{
		Severity: severity, What: fmt.Sprintf("the clock of this machine is %s %s %s", d.Abs().Round(time.Second), ahead, name),
		Evidence: []string{evidence}, Do: "see which one is wrong (chronyc tracking, or timedatectl), and synchronise it: timedatectl set-ntp true",
	}
}
