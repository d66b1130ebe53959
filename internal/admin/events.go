package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/facetheory/isr/internal/telemetry/live"
)

// Bounds of event streams.
const (
	maxStreams = 16
	// maxReaders bounds the streams of RoleRead, so that they leave some to RoleAdmin.
	maxReaders = 8
	streamTime = time.Hour
	// eventEvery is how often a stream looks for happenings. Every second time it sends the
	// overview.
	eventEvery = time.Second
	// sentMinutes and sentSeconds are the parts of an overview that can have changed since
	// the one before.
	sentMinutes = 2
	sentSeconds = 10
)

func (a *API) watchEvents() operation {
	op := operation{
		method: http.MethodGet, path: "/-/events", name: "watchEvents", limit: streamTime, watches: true,
		kind:    "text/event-stream",
		summary: "Watch the server, by server-sent events.",
		details: "The event overview has the result of showOverview every two seconds; after the first, only the minutes and seconds that can have changed. " +
			"The event happening has one that follows Last-Event-ID, of the last 256. The event end has the reason why the stream ends: session, shutdown or time. " +
			"At most 16 streams, of which the read token may have 8; each ends after an hour.",
		headers:  map[string]string{lastEventID: "The id of the latest happening that the client knows. Missing: only those from now on."},
		problems: []int{http.StatusConflict},
		input:    reflect.TypeFor[struct{}](), output: reflect.TypeFor[string](),
	}
	op.serve = func(x *exchange) error {
		if _, err := decode[struct{}](x, op); err != nil {
			return err
		}
		first, err := a.overview()
		if err != nil {
			return err
		}
		return a.watch(&eventStream{x: x, c: http.NewResponseController(x.w)}, first)
	}
	return op
}

const lastEventID = "Last-Event-ID"

// watch sends events until the client, its session, the server or the time of the stream ends.
func (a *API) watch(s *eventStream, first Overview) error {
	known, err := a.lastKnown(s.x.r)
	if err != nil {
		return err
	}
	h := s.x.w.Header()
	h.Set("X-Accel-Buffering", "no") // for proxies that would collect events
	writeHeader(s.x.w, "text/event-stream", http.StatusOK)
	s.write("retry: 2000\n\n")
	s.send("overview", 0, first)
	tick := time.NewTicker(eventEvery)
	defer tick.Stop()
	var ended <-chan struct{} // never ready without a session
	if s.x.visitor.session != nil {
		ended = s.x.visitor.session.ended
	}
	for n := 1; s.err == nil; n++ {
		select {
		case <-tick.C:
		case <-ended:
			return s.end("session")
		case <-a.closed.Done():
			return s.end("shutdown")
		case <-s.x.r.Context().Done():
			return s.end("time") // or the client is gone
		}
		if v := s.x.visitor; v.session != nil && !v.door.sessions.lives(v.session, time.Now()) {
			return s.end("session")
		}
		for _, one := range a.cfg.Live.Happenings(known) {
			known = one.ID
			if one.Kind != happeningChange || s.x.visitor.role == RoleAdmin {
				s.send("happening", one.ID, one)
			}
		}
		if n%2 == 0 {
			s.sendOverview(a)
		}
	}
	return nil
}

// lastKnown returns the id of the latest happening that a client knows.
func (a *API) lastKnown(r *http.Request) (int64, error) {
	text := r.Header.Get(lastEventID)
	if text == "" {
		return a.cfg.Live.Latest(), nil
	}
	known, err := strconv.ParseInt(text, 10, 64)
	if err != nil || known < 0 {
		return 0, invalid("header %s must be a number (got %.40q)", lastEventID, text)
	}
	return min(known, a.cfg.Live.Latest()), nil // a larger one is of an earlier process
}

// An eventStream is a response of server-sent events.
type eventStream struct {
	x   *exchange
	c   *http.ResponseController
	err error // the first; the client is gone
}

// sendOverview sends what can have changed of the overview.
func (s *eventStream) sendOverview(a *API) {
	o, err := a.overview()
	if err != nil {
		s.err = err
		return
	}
	o.Minutes = o.Minutes[max(len(o.Minutes)-sentMinutes, 0):]
	o.Seconds = o.Seconds[max(len(o.Seconds)-sentSeconds, 0):]
	s.send("overview", 0, o)
}

// send sends an event with a JSON value. An id of 0 is none.
func (s *eventStream) send(event string, id int64, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		s.err = errors.Join(s.err, err)
		return
	}
	line := ""
	if id > 0 {
		line = fmt.Sprintf("id: %d\n", id)
	}
	s.write(fmt.Sprintf("event: %s\n%sdata: %s\n\n", event, line, text))
}

// write sends text at once. Each write has its own deadline.
func (s *eventStream) write(text string) {
	if s.err != nil {
		return
	}
	err := s.c.SetWriteDeadline(time.Now().Add(writeTime))
	if err == nil {
		_, err = s.x.w.Write([]byte(text))
	}
	if err == nil {
		err = s.c.Flush()
	}
	s.err = err
}

// end sends the client the reason why the stream ends.
func (s *eventStream) end(reason string) error {
	s.send("end", 0, map[string]string{"reason": reason})
	return nil
}

// happeningChange is the kind of events that are changes by operators. Only the admin token may see
// their targets.
const happeningChange = "change"

// tell adds a change to the happenings.
func (a *API) tell(e AuditEntry) {
	if a.cfg.Live == nil {
		return
	}
	a.cfg.Live.Happen(live.Happening{At: e.At, Kind: happeningChange, Reason: e.Result, Text: e.Action + " of " + e.Target + ": " + e.Result})
}

// Close ends the streams of events, which would keep a server from stopping, and the reading of
// pages in the background, which must end before the store is closed.
func (a *API) Close() {
	a.close()
	a.index.stop()
}
