package notices_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr/internal/notices"
	"github.com/facetheory/isr/internal/testbed"
	"github.com/facetheory/isr/store"
)

// A scene is a fleet whose servers see the same problems, and one destination.
type scene struct {
	mu       sync.Mutex
	problems []notices.Problem // guarded by mu
	fails    error             // of deliveries; guarded by mu
	hangs    bool              // deliveries wait for their context; guarded by mu
	messages []notices.Message // that were delivered; guarded by mu
	results  []string          // of deliveries, by Options.Sent; guarded by mu
}

// set changes the problems, and what becomes of deliveries.
func (s *scene) set(fails error, problems ...notices.Problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems, s.fails = problems, fails
}

// Send implements [notices.Destination].
func (s *scene) Send(ctx context.Context, m notices.Message) error {
	s.mu.Lock()
	hangs := s.hangs
	s.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails == nil {
		s.messages = append(s.messages, m)
	}
	return s.fails
}

// told returns what was delivered since the last call, a line for each message: states and subjects.
func (s *scene) told() (lines []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.messages {
		var words []string
		for _, n := range m.Notices {
			words = append(words, string(n.State)+" "+n.Subject)
		}
		if m.More > 0 {
			words = append(words, fmt.Sprint(m.More, " more"))
		}
		lines = append(lines, strings.Join(words, ", "))
	}
	s.messages = nil
	return lines
}

func (s *scene) expect(t *testing.T, when string, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := s.told(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Fatalf("%s: the destination was told\n%s\nwant\n%s", when, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// start runs a server until stop is called.
func (s *scene) start(t *testing.T, table notices.Store, name string, only ...notices.Kind) (stop func()) {
	n := notices.New(notices.Options{
		Store: table, Server: name, Logger: slog.New(slog.DiscardHandler),
		Problems: func(context.Context) []notices.Problem {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.problems
		},
		Sent: func(_ string, _ int, err error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.results = append(s.results, fmt.Sprint(err))
		},
	}, notices.Settings{
		To: map[string]notices.Receiver{"ops": {Destination: s, Only: only}}, After: 2 * time.Minute, Repeat: 4 * time.Hour,
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { n.Run(ctx) })
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(stop)
	return stop
}

func failing(route string) notices.Problem {
	return notices.Problem{Kind: notices.FailingPages, Subject: route, Text: "3 pages of " + route + " fail"}
}

// TestOneServerTells: of a fleet that sees a problem one server tells it, again after a while, and its end.
func TestOneServerTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, s := testbed.Table(t), &scene{}
		for i := range 3 {
			s.start(t, table, fmt.Sprint("web-", i))
		}
		s.set(nil, failing("/shop"))
		time.Sleep(90 * time.Second)
		s.set(nil) // shorter than After
		time.Sleep(10 * time.Minute)
		s.expect(t, "after a short problem")
		s.set(nil, failing("/shop"), failing("/blog"))
		time.Sleep(10 * time.Minute)
		s.expect(t, "while the problems last", "begun /blog, begun /shop")
		time.Sleep(4 * time.Hour)
		s.expect(t, "four hours later", "continues /blog, continues /shop")
		s.set(nil, failing("/blog"))
		time.Sleep(time.Minute)
		s.set(nil, failing("/shop"), failing("/blog"))
		time.Sleep(10 * time.Minute)
		s.expect(t, "after a short recovery")
		s.set(nil)
		time.Sleep(10 * time.Minute)
		s.expect(t, "after their end", "ended /blog, ended /shop")
		s.set(nil, failing("/shop"))
		time.Sleep(10 * time.Minute)
		s.expect(t, "when one begins again", "begun /shop")
	})
}

// TestDestinationThatFails: nothing is queued for it, and it is told what is true when it takes messages again.
func TestDestinationThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scene{}
		s.start(t, testbed.Table(t), "web-1")
		s.set(errors.New("refused"), failing("/shop"), failing("/blog"))
		time.Sleep(time.Hour)
		s.expect(t, "while it fails")
		s.mu.Lock()
		tries := len(s.results)
		s.mu.Unlock()
		if tries < 5 || tries > 20 {
			t.Errorf("%d deliveries in an hour; want about 10, as the back-off ends at ten minutes", tries)
		}
		s.set(errors.New("refused"), failing("/blog"))
		time.Sleep(5 * time.Minute)
		s.set(nil, failing("/blog"))
		time.Sleep(20 * time.Minute)
		s.expect(t, "when it works again", "begun /blog")
		s.set(&notices.RetryError{After: 30 * time.Minute, Err: errors.New("busy")})
		time.Sleep(10 * time.Minute)
		s.set(nil)
		time.Sleep(10 * time.Minute)
		s.expect(t, "before the time that it has asked for")
		time.Sleep(30 * time.Minute)
		s.expect(t, "after the time that it has asked for", "ended /blog")
	})
}

// TestMessagesAreMerged: problems that come one after the other, and many at once, are few messages.
func TestMessagesAreMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, s := testbed.Table(t), &scene{}
		s.start(t, table, "web-1")
		s.start(t, table, "web-2")
		var problems []notices.Problem
		for i := range 30 {
			problems = append(problems, failing(fmt.Sprintf("/%02d", i)))
			s.set(nil, problems...)
			time.Sleep(5 * time.Second)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		first := s.told()
		if all := strings.Join(first, ", "); len(first) > 5 || strings.Count(all, "begun") != 30 {
			t.Errorf("30 problems in 150 seconds are %d messages:\n%s", len(first), strings.Join(first, "\n"))
		}
		for i := range 1000 {
			problems = append(problems, failing(fmt.Sprintf("/more/%d", i)))
		}
		s.set(nil, problems...)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		second := s.told()
		if len(second) != 1 || !strings.Contains(second[0], ", 50 more") {
			t.Errorf("1,000 problems at once are %d messages:\n%s", len(second), strings.Join(second, "\n"))
		}
		time.Sleep(time.Hour)
		s.expect(t, "an hour later")
	})
}

// TestServerEndsDuringDelivery: another server tells the problem a minute later.
func TestServerEndsDuringDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, s := testbed.Table(t), &scene{hangs: true}
		stop := s.start(t, table, "web-1")
		s.set(nil, failing("/shop"))
		time.Sleep(2*time.Minute + 15*time.Second) // in a delivery, or in the pause after it
		stop()
		s.mu.Lock()
		s.hangs = false
		s.mu.Unlock()
		s.start(t, table, "web-2")
		time.Sleep(5 * time.Minute)
		s.expect(t, "by the second server", "begun /shop")
	})
}

// A brokenStore does not answer.
type brokenStore struct{}

func (brokenStore) Acquire(context.Context, string, time.Duration, *store.Claim) (store.Lease, error) {
	return nil, errors.New("no answer")
}
func (brokenStore) Release(context.Context, store.Lease) error { return errors.New("no answer") }

// TestStoresThatFail: the problem is told nevertheless, by each server.
func TestStoresThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scene{}
		s.start(t, brokenStore{}, "web-1")
		s.start(t, brokenStore{}, "web-2")
		s.set(nil, notices.Problem{Kind: notices.Stores, Subject: "metadata", Text: "the store of the metadata does not answer"})
		time.Sleep(10 * time.Minute)
		s.expect(t, "in the outage", "begun metadata", "begun metadata")
		s.set(nil)
		time.Sleep(10 * time.Minute)
		s.expect(t, "after the outage", "ended metadata", "ended metadata")
	})
}

// TestOnly: a destination is told of the kinds that it wants.
func TestOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scene{}
		s.start(t, testbed.Table(t), "web-1", notices.Purges)
		s.set(nil, failing("/shop"), notices.Problem{Kind: notices.Purges, Subject: "cdn", Text: "purges are not delivered"})
		time.Sleep(10 * time.Minute)
		s.expect(t, "of two kinds", "begun cdn")
	})
}
