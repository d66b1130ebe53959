package server

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/facetheory/isr/internal/config"
	"github.com/facetheory/isr/internal/notices"
	"github.com/facetheory/isr/internal/telemetry/live"
	"github.com/facetheory/isr/store"
)

// noticeSettings returns what a file has told to whom.
func noticeSettings(f *config.File) notices.Settings {
	settings := notices.Settings{To: make(map[string]notices.Receiver), After: f.Notices.After, Repeat: f.Notices.Repeat}
	for name, c := range f.Notices.To {
		receiver := notices.Receiver{Destination: NoticeDestination(f, c)}
		for _, kind := range c.Only {
			receiver.Only = append(receiver.Only, notices.Kind(kind))
		}
		settings.To[name] = receiver
	}
	return settings
}

// NoticeDestination returns a destination of a file.
func NoticeDestination(f *config.File, c config.NoticeDestination) notices.Destination {
	return &notices.HTTP{URL: c.URL.Read, Secret: c.Secret.Read, Format: notices.Format(c.Format), Console: strings.TrimSuffix(f.Notices.Console, "/")}
}

// makeNotices makes what tells problems, before reloads are accepted.
func (s *server) makeNotices(context.Context) (end func(), err error) {
	given := givenUp{meta: s.back.st.Meta, deliveries: s.back.deliveries}
	s.notices = notices.New(notices.Options{
		Store: s.back.st.Meta, Server: nodeName(), Sent: s.watch.inst.metrics.Noticed, Logger: s.log,
		Problems: func(ctx context.Context) []notices.Problem {
			return slices.Concat(noticesOf(s.problems()), s.originNotices(), failingNotices(s.watch.inst.live.Failing(time.Now())), given.notices(ctx))
		},
	}, noticeSettings(s.reloader.file()))
	return nil, nil
}

// startNotices begins to tell problems. It ends as soon as the server is asked to stop: what happens then is no news.
func (s *server) startNotices(ctx context.Context) (end func(), err error) {
	s.endNotices = untilStopped(ctx, s.notices.Run)
	return s.endNotices, nil
}

func (s *server) prepareNotices(_ context.Context, _, next *setup) (replacement, error) {
	return replacement{use: func() { s.notices.Set(noticeSettings(next.file)) }}, nil
}

func (s *server) drainNotices(context.Context) { s.endNotices() }

// noticesOf returns why the server is degraded. Maintenance is no problem: a person has chosen it.
func noticesOf(degraded []problem) (all []notices.Problem) {
	kinds := map[string]notices.Kind{
		checkStores: notices.Stores, checkDownstream: notices.Purges, checkCertificates: notices.Certificates, checkQueue: notices.Queue, checkScheme: notices.Scheme,
	}
	for _, p := range degraded {
		kind, ok := kinds[p.check]
		if !ok {
			continue
		}
		n := notices.Problem{Kind: kind, Subject: p.subject, Text: p.text, Link: "/"}
		if p.check == checkDownstream {
			n.Link = "/purges"
		}
		all = append(all, n)
	}
	return all
}

// originNotices returns the origins whose circuit breakers are open.
func (s *server) originNotices() (all []notices.Problem) {
	for _, o := range s.reloader.site.Origins() {
		if o.Open {
			all = append(all, notices.Problem{Kind: notices.Origins, Subject: o.Name, Text: "the origin " + o.Name + " fails: its circuit breaker is open", Link: "/nodes"})
		}
	}
	return all
}

// failingNotices returns the routes with failing pages, and those with pages in quarantine. A page that has failed once may not
// have been asked for again, and is not told.
func failingNotices(pages []live.FailingPage) (all []notices.Problem) {
	type group struct {
		kind  notices.Kind
		route string
	}
	groups := make(map[group][]live.FailingPage)
	for _, p := range pages {
		g := group{notices.FailingPages, p.Route}
		if p.Outcome == "rejected" {
			g.kind = notices.Quarantine
		} else if p.Count < 2 {
			continue
		}
		groups[g] = append(groups[g], p)
	}
	order := slices.SortedFunc(maps.Keys(groups), func(a, b group) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.route, b.route))
	})
	for _, g := range order {
		latest, what, link := groups[g][0], "fail", "/"
		if g.kind == notices.Quarantine {
			what, link = "have new content in quarantine", "/quarantine"
		}
		text := fmt.Sprintf("%d pages of the route %s %s, the latest %s: %s", len(groups[g]), cmp.Or(g.route, "of all others"), what, latest.Key, latest.Error)
		if len(groups[g]) == 1 {
			text = fmt.Sprintf("the page %s fails: %s", latest.Key, latest.Error)
			if g.kind == notices.Quarantine {
				text = fmt.Sprintf("new content of the page %s is in quarantine: %s", latest.Key, latest.Error)
			}
		}
		all = append(all, notices.Problem{Kind: g.kind, Subject: g.route, Text: text, Link: link})
	}
	return all
}

// givenUp finds the purges that are not delivered any more.
type givenUp struct {
	meta       store.OutboxStore
	deliveries *deliveries

	read time.Time // when the outbox was read last
	now  []notices.Problem
}

// outboxInterval is how often the outbox is read for purges that were given up: a read unit for 20 jobs.
const outboxInterval = 5 * time.Minute

// notices returns the destinations with such purges.
func (g *givenUp) notices(ctx context.Context) []notices.Problem {
	if len(g.deliveries.Destinations()) == 0 {
		return nil
	}
	now := time.Now()
	if now.Sub(g.read) < outboxInterval {
		return g.now
	}
	g.read = now
	failed := make(map[string]int)
	for j, err := range g.meta.Outbox(ctx) {
		if err != nil {
			return g.now // the stores have a notice of their own
		}
		if j.Failed {
			failed[j.Destination]++
		}
	}
	g.now = nil
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		g.now = append(g.now, notices.Problem{
			Kind: notices.Purges, Subject: name + "/given up", Link: "/purges",
			Text: fmt.Sprintf("%d purges were not delivered to %s and are not tried again; see isr outbox", failed[name], name),
		})
	}
	return g.now
}
