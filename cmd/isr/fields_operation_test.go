package main

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/draft"
)

// bearer is the value of Authorization with a token.
func bearer(token string) string { return "Bearer " + token }

const testToken = "correct-horse-battery"

// hook sends a webhook to the hook cms, and returns the response.
func (s *fieldServer) hook(base, secret, body string) visit {
	s.Helper()
	at := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(at + "." + body))
	r, err := http.NewRequestWithContext(s.Context(), http.MethodPost, base+"/-/hooks/cms", strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "X-ISR-Timestamp": at, "X-ISR-Signature": "sha256=" + hex.EncodeToString(mac.Sum(nil)),
	} {
		r.Header.Set(name, value)
	}
	res, err := s.client.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer res.Body.Close()
	return visit{code: res.StatusCode}
}

// newQueue returns an SQS queue with one message.
func newQueue(s *fieldServer, body string) {
	var given atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		switch _, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), "."); {
		case operation == "ReceiveMessage" && !given.Swap(true):
			sum := md5.Sum([]byte(body)) //nolint:gosec // of SQS
			_ = json.NewEncoder(w).Encode(map[string]any{"Messages": []map[string]string{{
				"MessageId": "1", "ReceiptHandle": "1", "Body": body, "MD5OfBody": hex.EncodeToString(sum[:]),
			}}})
		case operation == "ReceiveMessage":
			s.origin.wait(r) // a long poll
			fmt.Fprint(w, "{}")
		case operation == "DeleteMessageBatch":
			fmt.Fprint(w, `{"Successful":[{"Id":"0"}],"Failed":[]}`)
		default:
			fmt.Fprint(w, "{}")
		}
	}))
	s.Cleanup(server.Close)
	s.replace("QUEUE", server.URL+"/1/purges")
}

// state returns the state of the stored page at /.
func (s *fieldServer) state() string {
	s.Helper()
	for line := range strings.Lines(s.isr("get", s.url+"/")) {
		if state, ok := strings.CutPrefix(line, "state"); ok {
			return strings.TrimSpace(state)
		}
	}
	return ""
}

// operationFieldTests are tests of the admin API, health checks, the shutdown, purging by
// others, and the log.
func operationFieldTests() []fieldTest {
	const cached = "defaults: {revalidate: 1h, stale: 1h}\n"
	writeToken := func(s *fieldServer) { s.write("token", testToken) }
	hooks := func(rest string) string {
		return cached + "admin: {address: 127.0.0.1:0}\ntriggers: {hooks: {cms: {provider: generic, secrets: {file: DIR/token}, targets: [all]" + rest
	}
	admin := func(s *fieldServer) string { return s.logged(`admin API on (http://[^"]+)`) }
	return append([]fieldTest{
		{
			fields: "admin.address admin.token", file: "admin: {address: 127.0.0.1:0, token: {file: DIR/token}}", prepare: writeToken,
			show: func(s *fieldServer) {
				for token, code := range map[string]int{testToken: 200, "something-else-of-it": 401} {
					if v := s.get(admin(s)+"/-/pages", "Authorization", bearer(token)); v.code != code {
						s.Errorf("%s: %s", token, v)
					}
				}
				if strings.HasSuffix(admin(s), "127.0.0.1:9180") {
					s.Error("the address is the default")
				}
			},
		},
		{
			fields: "admin.read_token", file: "admin: {address: 127.0.0.1:0, token: {file: DIR/other}, read_token: {file: DIR/token}}",
			prepare: func(s *fieldServer) {
				s.write("other", "the-token-of-the-operators")
				writeToken(s)
			},
			show: func(s *fieldServer) {
				for path, code := range map[string]int{"/-/pages": 200, "/-/audit": 403} {
					if v := s.get(admin(s)+path, "Authorization", bearer(testToken)); v.code != code {
						s.Errorf("%s: %s", path, v)
					}
				}
			},
		},
		{fields: "health.address", file: "health: {address: 127.0.0.1:0}", show: func(s *fieldServer) {
			s.until("the server is ready", func() bool { return s.get(s.logged(`health on (http://[^"]+)`)).code == 200 })
		}},
		{fields: "health.path", file: "health: {path: /-/ready}", show: func(s *fieldServer) {
			s.until("the server is ready", func() bool { return strings.Contains(s.get("/-/ready").body, `"ready"`) })
		}},
		{fields: "health.drain", file: "health: {path: /-/ready, drain: 2s}", show: func(s *fieldServer) {
			s.stop()
			s.until("the server is not ready", func() bool { return strings.Contains(s.get("/-/ready").body, `"draining"`) })
			s.expect("/", 200, "isr; fwd=") // without draining, the connection would be refused
		}},
		{fields: "health.grace", file: "health: {grace: 50ms}\ndefaults: {cache: off}", origin: held, show: func(s *fieldServer) {
			go func() { _, _ = s.try(http.MethodGet, "/") }()
			s.until("a request is in flight", func() bool { return s.origin.count() == 1 })
			s.stop()
			<-s.done // by default, after 35s, the test would end without
			s.contains(s.log.String(), "requests canceled at shutdown")
		}},
		{fields: "metrics.address", file: cached + "metrics: {address: 127.0.0.1:0}", show: func(s *fieldServer) {
			s.expect("/", 200, stored)
			url := s.logged(`metrics on (http://[^"\s]+)`)
			s.until("the request is counted", func() bool {
				return strings.Contains(s.get(url).body, `isr_requests_total{cache="miss"`)
			})
		}},
		{fields: "draft.secrets", file: cached + "draft: {secrets: [{file: DIR/new}, {file: DIR/token}]}", prepare: func(s *fieldServer) {
			s.write("new", "the-secret-of-tomorrow")
			writeToken(s)
		}, show: func(s *fieldServer) {
			host := strings.TrimPrefix(s.url, "http://")
			for secret, valid := range map[string]bool{"the-secret-of-tomorrow": true, testToken: true, "the-secret-of-yesterday": false} {
				token, err := draft.Sign(secret, draft.Grant{Host: host, Scope: "/", Expires: time.Now().Add(time.Minute)})
				if err != nil {
					s.Fatal(err)
				}
				v := s.get("/", "Cookie", draft.Name+"="+token)
				if got := strings.HasSuffix(v.status, "detail=draft"); got != valid || valid && s.origin.last().Header.Get("X-Isr-Draft") != "1" {
					s.Errorf("%s: %s", secret, v)
				}
			}
		}},
		{
			fields: "purge.method", file: cached + "purge: {method: true}\nadmin: {address: none, token: {file: DIR/token}}", prepare: writeToken,
			show: func(s *fieldServer) {
				s.expect("/", 200, stored)
				for token, code := range map[string]int{testToken: 200, "something-else-of-it": 401} {
					if v := s.do("PURGE", "/", "Authorization", bearer(token)); v.code != code {
						s.Errorf("%s: %s", token, v)
					}
				}
				s.contains(s.state(), "purged")
			},
		},
		{fields: "purge.from", file: cached + "purge: {method: true, from: [loopback]}", show: func(s *fieldServer) {
			if v := s.do("PURGE", "/"); v.code != 200 {
				s.Errorf("got %s", v)
			}
		}},
		downstreamTest(),
		noticesTest(),
		{
			fields: "triggers.hooks.NAME.provider triggers.hooks.NAME.secrets triggers.hooks.NAME.targets", file: hooks("}}}"), prepare: writeToken,
			show: func(s *fieldServer) {
				s.expect("/", 200, stored)
				for secret, code := range map[string]int{testToken: 200, "another-secret-of-it": 401} {
					if v := s.hook(admin(s), secret, "{}"); v.code != code {
						s.Errorf("%s: %s", secret, v)
					}
				}
				s.contains(s.state(), "stale")
				if v := s.hook(s.url, testToken, "{}"); v.code != http.StatusOK || s.origin.last().URL.Path != "/-/hooks/cms" {
					s.Errorf("the hook is at the public address: %s", v)
				}
			},
		},
		{fields: "triggers.hooks.NAME.hard", file: hooks(", hard: true}}}"), prepare: writeToken, show: func(s *fieldServer) {
			s.expect("/", 200, stored)
			s.hook(admin(s), testToken, "{}")
			s.contains(s.state(), "purged")
		}},
		{fields: "triggers.public", file: hooks("}}, public: true}"), prepare: writeToken, show: func(s *fieldServer) {
			s.expect("/", 200, stored)
			s.hook(s.url, testToken, "{}")
			s.contains(s.state(), "stale")
		}},
		{
			fields: "warm.sitemap warm.every", file: warmed("every: 5m"), origin: sitemapOf(3), show: func(s *fieldServer) {
				s.until("the pages are rendered", func() bool {
					return s.logged(`(warmed pages" result=complete pages=5 rendered=3 fresh=0 skipped=2 failed=0)`) != ""
				})
				s.contains(s.log.String(), "every=5m0s")
				for i := range 3 {
					s.expect(fmt.Sprint("/", i), 200, hit, "Host", "example.com")
				}
			},
		},
		{
			fields: "warm.rate", file: "listen: [{address: FREE}]\n" + warmed("every: 5m, rate: 0.01"), origin: sitemapOf(20), show: func(s *fieldServer) {
				s.until("a page is rendered", func() bool { return s.origin.count() >= 2 })
				s.reload(strings.Replace(s.file, "rate: 0.01", "rate: 1000", 1))
				s.until("the run is stopped", func() bool { return s.logged(`(warmed pages" result=stopped)`) != "" })
				s.until("the run goes on", func() bool { return s.logged(`(warmed pages" result=complete pages=22)`) != "" })
				s.expect("/19", 200, hit, "Host", "example.com")
			},
		},
		{fields: "warm.pages", file: warmed("every: 5m, pages: 2"), origin: sitemapOf(3), show: func(s *fieldServer) {
			s.until("the run is complete", func() bool { return s.logged(`(warmed pages" result=complete pages=2 rendered=2)`) != "" })
			s.contains(s.log.String(), "the sitemaps have more pages than warm.pages")
		}},
		{fields: "log.format", file: "log: {format: json}", show: func(s *fieldServer) {
			s.contains(s.log.String(), `"level":"INFO"`)
		}},
		{fields: "log.level", file: "log: {level: debug}", show: func(s *fieldServer) {
			s.until("there are details", func() bool { return strings.Contains(s.log.String(), "level=DEBUG") })
		}},
	}, queueTests(cached)...)
}

// warmed is a file of a site with a schedule.
func warmed(settings string) string {
	return "hosts: [example.com]\ndefaults: {revalidate: 1h}\nwarm: {sitemap: https://example.com/sitemap.txt, " + settings + "}"
}

// sitemapOf returns a site whose sitemap has pages, one that is private, and one of another host.
func sitemapOf(pages int) siteHandler {
	return func(_ *countedSite, n int, w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/sitemap.txt":
			w.Header().Set("Cache-Control", "no-store")
			for i := range pages {
				fmt.Fprintf(w, "https://example.com/%d\n", i)
			}
			fmt.Fprint(w, "https://example.com/account\nhttps://other.example/\n")
			return
		case "/account":
			w.Header().Set("Cache-Control", "private")
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "render %d", n)
	}
}

// queueTests show purges by messages of a queue.
func queueTests(cached string) []fieldTest {
	queue := func(fields, message, settings, state string) fieldTest {
		return fieldTest{
			fields: fields, file: cached + "store: {data: DIR/data}\nhosts: ['*']",
			prepare: func(s *fieldServer) { newQueue(s, message) },
			show: func(s *fieldServer) {
				s.expect("/", 200, stored, "Host", "example.com")
				s.restart(cached + "hosts: ['*']\ntriggers: {queue: {url: 'QUEUE'" + settings + "}}")
				s.until("the page is "+state, func() bool { return strings.Contains(s.isr("get", "http://example.com/"), state) })
			},
		}
	}
	const event = `{"page": "example.com/"}`
	return []fieldTest{
		queue("triggers.queue.url", `{"targets": [{"url": "example.com/"}]}`, "", "stale"),
		queue("triggers.queue.targets", event, ", targets: ['url:https://{payload.page}']", "stale"),
		queue("triggers.queue.hard", event, ", targets: [all], hard: true", "purged"),
	}
}

// regenerateTest shows a stale page that is sent to a queue instead of being rendered.
func regenerateTest() fieldTest {
	var sent atomic.Pointer[string]
	tt := fleet("regenerate.queue", "regenerate: {queue: 'QUEUE'}", func(s *fieldServer, _ *cloud) {
		s.expect("/", 200, stored)
		s.isr("purge", "--soft", s.url+"/")
		s.until("the page is sent", func() bool { s.get("/"); return sent.Load() != nil })
		s.contains(*sent.Load(), `\"reason\":\"purge\"`)
		if n := s.origin.count(); n != 1 {
			s.Errorf("the server has rendered %d times", n)
		}
	})
	start := tt.prepare
	tt.prepare = func(s *fieldServer) {
		start(s)
		queue := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			sent.Store(new(string(body)))
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			fmt.Fprint(w, `{"Successful":[],"Failed":[]}`)
		}))
		s.Cleanup(queue.Close)
		s.replace("QUEUE", queue.URL+"/1/regenerations.fifo")
	}
	return tt
}

// noticesTest shows what is told of a page that fails twice, and then no more.
func noticesTest() fieldTest {
	posted := &postedMessages{}
	var works atomic.Bool
	return fieldTest{
		fields: "notices.after notices.repeat notices.console notices.to.NAME.format notices.to.NAME.url notices.to.NAME.secret notices.to.NAME.only",
		file: "defaults: {revalidate: 1h}\nnotices: {after: 0s, repeat: 1m, console: 'https://isr-admin.example.com', to: {" +
			"team: {url: {file: DIR/team}}, pager: {format: webhook, url: {file: DIR/pager}, secret: {file: DIR/token}}, others: {url: {file: DIR/others}, only: [certificates]}}}",
		origin: func(_ *countedSite, n int, w http.ResponseWriter, _ *http.Request) {
			if !works.Load() {
				w.WriteHeader(http.StatusInternalServerError)
			}
			fmt.Fprintf(w, "render %d", n)
		},
		prepare: func(s *fieldServer) {
			s.write("token", testToken)
			to := httptest.NewServer(posted)
			s.Cleanup(to.Close)
			for _, name := range []string{"team", "pager", "others"} {
				s.write(name, to.URL+"/"+name)
			}
		},
		show: func(s *fieldServer) {
			s.until("the problem is told", func() bool {
				s.get("/news") // is rendered once in each back-off
				return len(posted.to("/team")) > 0 && len(posted.to("/pager")) > 0
			})
			s.contains(posted.to("/team")[0], "/news fails: ")
			s.contains(posted.to("/team")[0], `https://isr-admin.example.com/|console`)
			var m struct {
				Timestamp time.Time
				Data      struct{ Notices []struct{ Since time.Time } }
			}
			if err := json.Unmarshal([]byte(posted.to("/pager")[0]), &m); err != nil || m.Timestamp.Sub(m.Data.Notices[0].Since) > time.Minute {
				s.Errorf("%v: told later than at once: %s", err, posted.to("/pager")[0])
			}
			s.until("it is told again", func() bool { return strings.Contains(strings.Join(posted.to("/pager"), ""), `"continues"`) })
			if code := execute(s.Context(), []string{"notices", "test", "pager", "--config", filepath.Join(s.dir, "isr.yaml")}, &cli.Streams{Out: s.log, Err: s.log}); code != 0 {
				s.Errorf("a test message is not delivered: %s", s.log)
			}
			s.contains(strings.Join(posted.to("/pager"), ""), "this is a test")
			works.Store(true)
			s.until("the page is rendered", func() bool { return s.get("/news").code == http.StatusOK })
			s.until("its end is told", func() bool { return strings.Contains(strings.Join(posted.to("/pager"), ""), `"ended"`) })
			if got := posted.to("/others"); got != nil || posted.unsigned.Load() > 0 {
				s.Errorf("others: %q; %d messages to pager are not signed", got, posted.unsigned.Load())
			}
		},
	}
}

// postedMessages are the bodies of POST requests, by path.
type postedMessages struct {
	mu       sync.Mutex
	bodies   map[string][]string // guarded by mu
	unsigned atomic.Int64        // messages to pager
}

func (p *postedMessages) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client tries again
	}
	if r.URL.Path == "/pager" && !strings.HasPrefix(r.Header.Get("Webhook-Signature"), "v1,") {
		p.unsigned.Add(1)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bodies == nil {
		p.bodies = make(map[string][]string)
	}
	p.bodies[r.URL.Path] = append(p.bodies[r.URL.Path], string(body))
}

func (p *postedMessages) to(path string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bodies[path]
}

// downstreamTest shows a purge that is delivered to Varnish.
func downstreamTest() fieldTest {
	var purged atomic.Pointer[http.Request]
	return fieldTest{
		fields: "downstream.NAME.to downstream.NAME.token", file: "downstream: {edge: {to: 'varnish:EDGE', token: {file: DIR/token}}}",
		prepare: func(s *fieldServer) {
			s.write("token", testToken)
			edge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				purged.Store(r)
				w.Header().Set("X-Purged", "1")
			}))
			s.Cleanup(edge.Close)
			s.replace("EDGE", edge.URL)
		},
		show: func(s *fieldServer) {
			s.isr("purge", "--hard", s.url+"/news")
			s.until("the purge is delivered", func() bool { return purged.Load() != nil })
			s.contains(purged.Load().Method+" "+purged.Load().URL.Path, "PURGE /news")
			s.contains(purged.Load().Header.Get("Authorization"), bearer(testToken))
		},
	}
}
