package wrk

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// printed is what wrk 4.1.0 prints.
const printed = `Running 2s test @ http://127.0.0.1:8080/page
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.53ms    2.45ms  33.11ms   95.24%
    Req/Sec    54.95k     3.91k   61.21k    75.00%
  Latency Distribution
     50%    1.01ms
     75%    1.33ms
     90%  984.00us
     99%   12.33ms
  109345 requests in 2.00s, 1.08GB read
Requests/sec:  54631.20
Transfer/sec:    553.17MB
`

func TestParse(t *testing.T) {
	got, err := parse(printed)
	want := Result{Requests: 109345, PerSecond: 54631.20, P50: 1010 * time.Microsecond, P99: 12330 * time.Microsecond, Megabytes: 553.17 * (1 << 20) / 1e6}
	if err != nil || got != want {
		t.Errorf("got %+v, error %v, want %+v", got, err, want)
	}
}

func TestParseReadsEachUnit(t *testing.T) {
	for text, want := range map[string]float64{"Transfer/sec:    250.00B": 0.00025, "Transfer/sec:    250.00KB": 0.256, "Transfer/sec:      2.00GB": 2147.483648} {
		got, err := parse(strings.ReplaceAll(printed, "Transfer/sec:    553.17MB", text))
		if err != nil || got.Megabytes != want {
			t.Errorf("%s: %v, error %v, want %v", text, got.Megabytes, err, want)
		}
	}
	got, err := parse(strings.ReplaceAll(strings.ReplaceAll(printed, "1.01ms", "850.00us"), "12.33ms", "1.20s"))
	if err != nil || got.P50 != 850*time.Microsecond || got.P99 != 1200*time.Millisecond {
		t.Errorf("got %+v, error %v", got, err)
	}
}

func TestParseRefusesRunsWithErrors(t *testing.T) {
	for _, line := range []string{
		"  Socket errors: connect 0, read 12, write 0, timeout 3\n",
		"  Non-2xx or 3xx responses: 7\n",
	} {
		_, err := parse(strings.Replace(printed, "Requests/sec:", line+"Requests/sec:", 1))
		if err == nil || !strings.Contains(err.Error(), strings.TrimSpace(line)) {
			t.Errorf("error %v, want one with %q", err, line)
		}
	}
}

func TestParseRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, line := range strings.SplitAfter(printed, "\n") {
		if !strings.Contains(line, "50%  ") && !strings.Contains(line, "99%  ") && !strings.Contains(line, "/sec:") && !strings.Contains(line, "requests in") {
			continue
		}
		if _, err := parse(strings.Replace(printed, line, "", 1)); err == nil {
			t.Errorf("no error without %q", line)
		}
	}
}

func TestCommand(t *testing.T) {
	load := Load{Threads: 2, Connections: 64, Seconds: 3, Headers: []string{"Accept: text/html"}}
	got := strings.Join(load.command("x.lua", "http://a/"), " ")
	if want := "--latency --timeout 10s -t 2 -c 64 -d 3s -H Accept: text/html http://a/ --"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := load.New("/new/").command("x.lua", "http://a/"); !slices.Contains(got, "x.lua") || got[len(got)-1] != "/new/" {
		t.Errorf("got %q, want the script and its argument", got)
	}
}
