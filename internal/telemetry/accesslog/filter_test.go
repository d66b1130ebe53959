package accesslog

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestFilter(t *testing.T) {
	x := exchange()
	x.Request.Header["X-Team"] = []string{"a b"}
	l := newLine(x, 1, AddressFull)
	none := newLine(hit(), 1, AddressFull)
	for _, c := range []struct {
		where             string
		selects, selects2 bool
	}{
		{"", true, true},
		{"  ", true, true},
		{"status=200", true, true},
		{"http.response.status_code>=500", false, false},
		{"status<300 status>199 status!=204 status<=200 status>=200", true, true},
		{"status=200 route=/news/", true, false},
		{"route~new", true, false},
		{"route!=/news/", false, true},
		{"path~/n*a%20b", true, false},
		{"path~b*n", false, false},
		{"duration>1s", true, false},
		{"duration<=0.000123", false, true},
		{"duration<1ms", false, true},
		{"stored=true", true, false},
		{"stored!=true", false, true},
		{"aborted=false", true, true},
		{`query=""`, false, true},
		{"forward_status=200", true, false},
		{"forward_status<500", true, false}, // no number is not less than 500
		{"forward_status!=200", false, true},
		{`request.x-team="a b"`, true, false},
		{`agent~"\"quoted\""`, true, false},
		{"cache=hit", false, true},
	} {
		f, err := ParseFilter(c.where)
		if err != nil {
			t.Errorf("%s: %v", c.where, err)
			continue
		}
		if got, got2 := f.selects(&l), f.selects(&none); got != c.selects || got2 != c.selects2 {
			t.Errorf("%s selects %v, %v", c.where, got, got2)
		}
	}
}

func TestWrongFilters(t *testing.T) {
	for where, want := range map[string]string{
		"staus>=500":                    `column 1 of the filter: the log has no field "staus"; expected request.HEADER`,
		"status>=500 route":             "column 18 of the filter: expected one of != >= <= = > < ~ right after route",
		"status >= 500":                 "column 7 of the filter: expected one of",
		"status>=5xx":                   `column 9 of the filter: expected a whole number for status (got "5xx")`,
		"status=":                       "column 8 of the filter: expected a value",
		"=500":                          "column 1 of the filter: a condition begins with the name of a field",
		"path>/a":                       "column 5 of the filter: path is a text, which has the operators = != ~",
		"status~50":                     "column 7 of the filter: status is no text",
		"duration>fast":                 `column 10 of the filter: expected a duration for duration, such as 200ms, or 0.2 for seconds (got "fast")`,
		"duration>-1s":                  "column 10 of the filter: expected a duration",
		"duration>1e300":                "column 10 of the filter: expected a duration",
		"stored=yes":                    "column 8 of the filter: expected a value true or false for stored",
		"stored>true":                   "column 7 of the filter: stored is true or false",
		`agent="a`:                      "column 7 of the filter: the quote is not closed",
		`agent="a"b`:                    "column 10 of the filter: expected a space after the closing quote",
		"time>1":                        "column 1 of the filter: time cannot be compared",
		"request.cookie~a":              "column 1 of the filter: the log cannot have request.cookie",
		strings.Repeat("status=1 ", 33): "column 289 of the filter: there are more than 32 conditions",
		strings.Repeat("a", 1025):       "the filter has 1025 bytes; expected at most 1024",
	} {
		if _, err := ParseFilter(where); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %s", where, err, want)
		}
	}
}

// Whatever is typed, it is a filter or an error.
func FuzzFilter(f *testing.F) {
	f.Add(`status>=500 agent~"a\"*b" duration<1ms`)
	f.Add(`"`)
	f.Fuzz(func(t *testing.T, text string) {
		filter, err := ParseFilter(text)
		if (filter == nil) == (err == nil) {
			t.Errorf("%v, %v", filter, err)
		}
		if err == nil {
			l := newLine(exchange(), 1, AddressFull)
			filter.selects(&l)
		}
	})
}

// A follower that takes nothing costs lines, which are counted and told, and no waiting. Others get all lines.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const requests = 10_000
		tail := new(Tail)
		tail.Done(hit()) // nobody follows
		ctx, cancel := context.WithCancel(t.Context())
		misses, err := ParseFilter("cache!=hit")
		if err != nil {
			t.Fatal(err)
		}
		open, ended := make(chan struct{}), make(chan error, 2)
		slow, dropped, fast := 0, int64(0), ""
		go func() {
			ended <- tail.Follow(ctx, new(Filter), func() {}, func(lines []byte, n int64) error {
				<-open
				slow += strings.Count(string(lines), "\n")
				dropped += n
				return nil
			})
		}()
		go func() {
			ended <- tail.Follow(ctx, misses, func() {}, func(lines []byte, _ int64) error {
				fast += string(lines)
				return nil
			})
		}()
		synctest.Wait()
		began := time.Now()
		tail.ShowClients(AddressMasked)
		tail.Done(exchange())
		for range requests {
			tail.Done(hit())
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("took %s", took)
		}
		time.Sleep(time.Second)
		close(open)
		time.Sleep(time.Second)
		cancel()
		if err := errors.Join(<-ended, <-ended); err != nil {
			t.Error(err)
		}
		if int64(slow)+dropped != requests+1 || dropped == 0 {
			t.Errorf("%d lines, and %d dropped", slow, dropped)
		}
		if strings.Count(fast, "\n") != 1 || !strings.Contains(fast, `"client.address":"2001:db8::",`) {
			t.Error(fast)
		}
		if all := *tail.followers.Load(); len(all) > 0 {
			t.Errorf("%d followers are left", len(all))
		}
	})
}

// A follower that is gone ends.
func TestFollowFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tail, gone := new(Tail), errors.New("gone")
		ended := make(chan error)
		go func() {
			ended <- tail.Follow(t.Context(), new(Filter), func() {}, func([]byte, int64) error { return gone })
		}()
		synctest.Wait()
		tail.Done(hit())
		if err := <-ended; !errors.Is(err, gone) {
			t.Error(err)
		}
	})
}
