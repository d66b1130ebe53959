package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/facetheory/isr/e2e/internal/process"
	"github.com/facetheory/isr/isrtest"
)

// A queues is a FIFO queue and its dead-letter queue on ElasticMQ.
type queues struct {
	client    *sqs.Client
	url, dead string
}

// newQueues makes queues that move a message after three deliveries.
func newQueues(t *testing.T, c *cloud) *queues {
	t.Helper()
	endpoint := isrtest.Engine(t, "ISR_TEST_SQS", "ElasticMQ")
	q := &queues{client: sqs.New(sqs.Options{BaseEndpoint: &endpoint, Region: region, Credentials: c.credentials()})}
	create := func(name string, attributes map[string]string) string {
		attributes["FifoQueue"] = "true"
		out, err := q.client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
		if err != nil {
			t.Fatal(err)
		}
		return *out.QueueUrl
	}
	q.dead = create(c.table+"-dead.fifo", map[string]string{})
	q.url = create(c.table+".fifo", map[string]string{
		"RedrivePolicy": `{"deadLetterTargetArn":"arn:aws:sqs:elasticmq:000000000000:` + c.table + `-dead.fifo","maxReceiveCount":"3"}`,
	})
	return q
}

// left returns how many messages a queue has, visible or not.
func (q *queues) left(t *testing.T, url string) int {
	t.Helper()
	out, err := q.client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll}})
	if err != nil {
		t.Fatal(err)
	}
	var visible, hidden int
	_, _ = fmt.Sscan(out.Attributes["ApproximateNumberOfMessages"], &visible)
	_, _ = fmt.Sscan(out.Attributes["ApproximateNumberOfMessagesNotVisible"], &hidden)
	return visible + hidden
}

// worker starts isr worker on the queue.
func (q *queues) worker(t *testing.T, c *cloud, o *origin, args ...string) *process.Process {
	t.Helper()
	s := c.settings(t)
	cmd := s.withoutFolder(t, "worker", append([]string{"--origin", o.server.URL, "--host", host, "--host", "127.0.0.1", "--queue", q.url}, args...)...)
	p := process.Start(t, cmd)
	p.Await(t, "the worker to work", patience, func() bool { return strings.Contains(p.Log(), "regenerating pages") })
	return p
}

// A function is a process that runs isr lambda, and AWS Lambda to it: it is frozen (SIGSTOP) from
// the end of each response until the next invocation. See AWS, "Lambda runtime API".
type function struct {
	t       *testing.T
	process *process.Process
	events  chan invocation

	mu      sync.Mutex
	current *invocation // guarded by mu: in progress
}

type invocation struct {
	id      string
	payload []byte
	timeout time.Duration
	done    chan invoked
}

// An invoked is what an invocation has returned.
type invoked struct {
	contentType string
	body        []byte
	failure     string        // of the function, or in the trailer of a stream
	first, took time.Duration // until the first bytes, and until the end
}

func newFunction(t *testing.T, c *cloud, o *origin, args ...string) *function {
	t.Helper()
	f := &function{t: t, events: make(chan invocation)}
	api := httptest.NewServer(f)
	t.Cleanup(api.Close)
	t.Cleanup(api.CloseClientConnections)
	s := c.settings(t)
	s.env = append(s.env, "AWS_LAMBDA_RUNTIME_API="+strings.TrimPrefix(api.URL, "http://"), "AWS_LAMBDA_FUNCTION_NAME=isr")
	cmd := s.withoutFolder(t, "lambda", append([]string{"--origin", o.server.URL, "--host", host}, args...)...)
	f.process = process.Start(t, cmd)
	t.Cleanup(func() { f.process.Signal(t, syscall.SIGCONT); f.process.Kill() })
	return f
}

// ServeHTTP is the runtime API.
func (f *function) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const runtime = "/2018-06-01/runtime/"
	path, ok := strings.CutPrefix(r.URL.Path, runtime)
	switch {
	case ok && path == "invocation/next":
		select {
		case next := <-f.events:
			f.mu.Lock()
			f.current = &next
			f.mu.Unlock()
			w.Header().Set("Lambda-Runtime-Aws-Request-Id", next.id)
			w.Header().Set("Lambda-Runtime-Deadline-Ms", fmt.Sprint(time.Now().Add(next.timeout).UnixMilli()))
			w.Header().Set("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:us-east-1:1:function:isr")
			_, _ = w.Write(next.payload)
		case <-r.Context().Done():
		}
	case ok && strings.HasSuffix(path, "/response"), ok && strings.HasSuffix(path, "/error"):
		f.finish(r, strings.HasSuffix(path, "/error"))
		w.WriteHeader(http.StatusAccepted)
	default:
		f.t.Errorf("the function asks for %s %s", r.Method, r.URL)
		w.WriteHeader(http.StatusNotFound)
	}
}

// finish reads a response, and freezes the process at its end.
func (f *function) finish(r *http.Request, failed bool) {
	began := time.Now()
	f.mu.Lock()
	current := f.current
	f.mu.Unlock()
	first := make([]byte, 1)
	n, err := io.ReadFull(r.Body, first)
	out := invoked{contentType: r.Header.Get("Content-Type"), first: time.Since(began)}
	rest, err2 := io.ReadAll(r.Body)
	out.body = append(first[:n], rest...)
	if out.failure = r.Trailer.Get("Lambda-Runtime-Function-Error-Type"); failed {
		out.failure = string(out.body)
	} else if err != nil && err != io.EOF || err2 != nil {
		out.failure = fmt.Sprint(err, err2)
	}
	f.process.Signal(f.t, syscall.SIGSTOP)
	current.done <- out
}

// invoke thaws the process for one event.
func (f *function) invoke(payload any) invoked {
	f.t.Helper()
	text, err := json.Marshal(payload)
	if err != nil {
		f.t.Fatal(err)
	}
	f.process.Signal(f.t, syscall.SIGCONT)
	i := invocation{id: fmt.Sprint(time.Now().UnixNano()), payload: text, timeout: 20 * time.Second, done: make(chan invoked, 1)}
	began := time.Now()
	select {
	case f.events <- i:
	case <-time.After(patience):
		f.t.Fatalf("the function does not ask for an invocation; it wrote:\n%s", f.process.Log())
	}
	select {
	case out := <-i.done:
		out.took = time.Since(began)
		return out
	case <-time.After(patience):
		f.t.Fatalf("the function does not answer; it wrote:\n%s", f.process.Log())
	}
	return invoked{}
}

// An answer of a function to a request.
type functionReply struct {
	invoked
	status  int
	headers map[string]string
	text    string
}

func (r functionReply) cache() string { return r.headers["Cache-Status"] }

// get requests a page through the function URL.
func (f *function) get(path string) functionReply {
	f.t.Helper()
	raw, query, _ := strings.Cut(path, "?")
	out := f.invoke(map[string]any{
		"version": "2.0", "rawPath": raw, "rawQueryString": query, "headers": map[string]string{"host": host, "x-forwarded-for": "203.0.113.9"},
		"requestContext": map[string]any{"domainName": "x.lambda-url.us-east-1.on.aws", "http": map[string]string{"method": "GET", "sourceIp": "203.0.113.9"}},
	})
	return f.reply(out)
}

// reply parses a response of payload format 2.0, buffered or streamed.
func (f *function) reply(out invoked) functionReply {
	f.t.Helper()
	r := functionReply{invoked: out}
	head, body, streamed := bytes.Cut(out.body, make([]byte, 8))
	var parsed struct {
		StatusCode      int
		Headers         map[string]string
		Body            string
		IsBase64Encoded bool
	}
	if err := json.Unmarshal(head, &parsed); err != nil || out.failure != "" {
		f.t.Fatalf("the function answers %.300q, %v, %s", out.body, err, out.failure)
	}
	if want := "application/vnd.awslambda.http-integration-response"; streamed != (out.contentType == want) {
		f.t.Errorf("the content type is %q", out.contentType)
	}
	r.status, r.headers, r.text = parsed.StatusCode, parsed.Headers, parsed.Body
	if parsed.IsBase64Encoded {
		text, err := base64.StdEncoding.DecodeString(parsed.Body)
		if err != nil {
			f.t.Error(err)
		}
		r.text = string(text)
	}
	if streamed {
		r.text = string(body)
	}
	return r
}

// createTable makes the table of a cloud, which a function and a worker do not make.
func (c *cloud) createTable(t *testing.T) {
	t.Helper()
	s := c.settings(t)
	s.store = nil
	if out, err := s.withoutFolder(t, "table", "create", "--table", c.table, "--region", region, "--dynamodb-endpoint", c.dynamodb).CombinedOutput(); err != nil {
		t.Fatalf("isr table create: %v\n%s", err, out)
	}
}

// withoutFolder returns a command that has no data folder.
func (s settings) withoutFolder(t *testing.T, subcommand string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := s.command(context.Background(), t, subcommand, args...)
	at := slices.Index(cmd.Args, "--data")
	cmd.Args = slices.Delete(cmd.Args, at, at+2)
	return cmd
}

// A function is frozen after each response. It serves stale pages at once, and leaves their
// regeneration to the queue; a worker regenerates each once; purges that are made while it is frozen
// are respected when it is thawed.
func TestFunction(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprint("stream=", stream), func(t *testing.T) {
			t.Parallel()
			c, o := newCloud(t), newOrigin(t)
			c.createTable(t)
			q := newQueues(t, c)
			args := []string{"--regenerate-queue", q.url, "--jitter", "0"}
			if stream {
				args = append(args, "--stream")
			}
			o.set("/", page(5, 0))
			f := newFunction(t, c, o, args...)
			if r := f.get("/"); r.status != 200 || r.text != bodyOf("/", 1) || !strings.Contains(r.cache(), "stored") {
				t.Fatalf("a missing page: %d %q %.100q", r.status, r.cache(), r.text)
			}
			rendered := time.Now()
			if r := f.get("/"); r.text != bodyOf("/", 1) || !strings.Contains(r.cache(), "hit") {
				t.Errorf("after a freeze: %q", r.cache())
			}
			o.set("/", page(3600, 2*time.Second))
			awaitClock(t, "the page to be stale", rendered.Add(5200*time.Millisecond))
			for range 3 {
				if r := f.get("/"); r.text != bodyOf("/", 1) || !strings.Contains(r.cache(), "detail=stale") {
					t.Errorf("a stale page: %q", r.cache())
				}
			}
			if n := q.left(t, q.url); n != 1 || o.count("/") != 1 {
				t.Errorf("%d messages, %d renders; want one message and no other render", n, o.count("/"))
			}
			workers := []*process.Process{q.worker(t, c, o), q.worker(t, c, o)}
			await(t, "the message to be executed", patience, func() bool { return q.left(t, q.url) == 0 })
			awaitPage := func(want string) {
				t.Helper()
				await(t, "the function to serve the new page", patience, func() bool { return f.get("/").text == want })
			}
			awaitPage(bodyOf("/", 2))
			if n := o.count("/"); n != 2 {
				t.Errorf("%d renders, want 2; workers wrote:\n%s%s", n, workers[0].Log(), workers[1].Log())
			}
			o.set("/", page(3600, 0))
			s := c.settings(t)
			s.output(t, "purge", "--hard", host+"/")
			// Longer than the staleness bound, by which a process that runs would serve it.
			awaitClock(t, "the staleness bound", time.Now().Add(2500*time.Millisecond))
			if r := f.get("/"); r.text != bodyOf("/", 3) {
				t.Errorf("purged while the function was frozen: %q %.80q", r.cache(), r.text)
			}
		})
	}
}

// Responses beyond the limits of AWS are refused with an error that says so; streams carry more.
func TestFunctionLimits(t *testing.T) {
	t.Parallel()
	c, o := newCloud(t), newOrigin(t)
	c.createTable(t)
	big := func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Cache-Control", "public, max-age=600")
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write(bytes.Repeat([]byte("0123456789abcdef"), 8<<16))
	}
	o.set("/big", big)
	buffered, streaming := newFunction(t, c, o), newFunction(t, c, o, "--stream")
	if r := buffered.get("/big"); r.status != http.StatusBadGateway || !strings.Contains(r.text, "too large") {
		t.Errorf("buffered: %d %.100q", r.status, r.text)
	}
	await(t, "the reason in the log", patience, func() bool {
		return strings.Contains(buffered.process.Log(), "too large for AWS Lambda")
	})
	for range 2 {
		if r := streaming.get("/big"); r.status != 200 || len(r.text) != 8<<20 {
			t.Errorf("streamed: %d, %d bytes", r.status, len(r.text))
		}
	}
	if out := buffered.invoke(map[string]string{"detail-type": "Scheduled Event"}); !strings.Contains(out.failure, "not an HTTP request") {
		t.Errorf("another event: %q", out.failure)
	}
}

// The same function executes messages of the queue: what fails is returned, with all after it.
func TestFunctionExecutesMessages(t *testing.T) {
	t.Parallel()
	c, o := newCloud(t), newOrigin(t)
	c.createTable(t)
	o.set("/", page(3600, 0))
	f := newFunction(t, c, o)
	var records []map[string]any
	for i, body := range []string{`{"v":1,"key":"` + host + `/","reason":"warm"}`, "poison", `{"v":1,"key":"` + host + `/after","reason":"warm"}`} {
		records = append(records, map[string]any{
			"messageId": fmt.Sprint("m", i), "body": body, "eventSource": "aws:sqs", "eventSourceARN": "arn:aws:sqs:us-east-1:1:q.fifo",
			"attributes": map[string]string{"MessageGroupId": "isr-1", "ApproximateReceiveCount": "1"},
		})
	}
	for range 2 { // a redelivery does nothing more
		out := f.invoke(map[string]any{"Records": records})
		if got := string(out.body); got != `{"batchItemFailures":[{"itemIdentifier":"m1"},{"itemIdentifier":"m2"}]}` {
			t.Errorf("the function returns %s, %s", got, out.failure)
		}
	}
	if n, after := o.count("/"), o.count("/after"); n != 1 || after != 0 {
		t.Errorf("%d and %d renders, want one of the first page", n, after)
	}
}

// SIGHUP makes a worker read its configuration file again: it then regenerates pages of new hosts. A file
// that is wrong changes nothing. The service manager is told of all that.
func TestWorkerReloads(t *testing.T) {
	t.Parallel()
	c, o := newCloud(t), newOrigin(t)
	c.createTable(t)
	q := newQueues(t, c)
	o.set("/p", page(3600, 0))
	file := filepath.Join(t.TempDir(), "isr.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	site := "origins: {site: {url: '" + o.server.URL + "'}}\n"
	write("hosts: [old.example]\n" + site)
	s := c.settings(t)
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	tells := func(states ...string) {
		t.Helper()
		for _, want := range states {
			_ = socket.SetReadDeadline(time.Now().Add(patience))
			message := make([]byte, 1<<10)
			if n, err := socket.Read(message); err != nil || !strings.HasPrefix(string(message[:n]), want) {
				t.Fatalf("told the service manager %q, %v; want %s", message[:n], err, want)
			}
		}
	}
	s.env = append(s.env, "NOTIFY_SOCKET="+socket.LocalAddr().String())
	p := process.Start(t, s.withoutFolder(t, "worker", "--config", file, "--queue", q.url))
	logs := func(text string) {
		t.Helper()
		p.Await(t, text, patience, func() bool { return strings.Contains(p.Log(), text) })
	}
	send := func(id string) {
		t.Helper()
		body := `{"v":1,"key":"new.example/p","reason":"stale"}`
		if _, err := q.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &q.url, MessageBody: &body, MessageGroupId: &id, MessageDeduplicationId: &id}); err != nil {
			t.Fatal(err)
		}
	}
	logs("regenerating pages")
	tells("READY=1")
	send("before")
	logs("the host new.example is not served")
	write("rutes: []\n")
	p.Signal(t, syscall.SIGHUP)
	logs("failed to reload configuration")
	tells("RELOADING=1\n", "READY=1")
	write("hosts: [old.example, new.example]\n" + site)
	p.Signal(t, syscall.SIGHUP)
	logs("reloaded configuration")
	tells("RELOADING=1\n", "READY=1")
	send("after")
	logs("key=new.example/p result=rendered")
	p.Signal(t, syscall.SIGTERM)
	tells("STOPPING=1\n")
}

// Workers that are killed in mid-render lose nothing: each page is published once.
func TestWorkerIsKilled(t *testing.T) {
	t.Parallel()
	c, o := newCloud(t), newOrigin(t)
	c.createTable(t)
	q := newQueues(t, c)
	o.set("/", page(3600, 3*time.Second))
	const pages = 6
	send := func(attempt int) {
		for i := range pages {
			key := fmt.Sprint(host, "/p", i)
			body := fmt.Sprintf(`{"v":1,"key":%q,"attempt":%d,"reason":"stale"}`, key, attempt)
			if _, err := q.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &q.url, MessageBody: &body, MessageGroupId: aws.String(key), MessageDeduplicationId: aws.String(fmt.Sprintf("%d-%d", i, attempt))}); err != nil {
				t.Fatal(err)
			}
		}
	}
	send(1)
	send(2) // duplicates of another attempt
	first := q.worker(t, c, o, "--lease", "10s")
	o.awaitVisit(t, "/p0", 1, patience)
	first.Kill()
	q.worker(t, c, o, "--lease", "10s")
	q.worker(t, c, o, "--lease", "10s")
	await(t, "all messages to be executed", 2*patience, func() bool { return q.left(t, q.url) == 0 })
	if n := q.left(t, q.dead); n != 0 {
		t.Errorf("%d messages are dead", n)
	}
	s := c.settings(t)
	listed := string(s.output(t, "ls"))
	for i := range pages {
		path := fmt.Sprint("/p", i)
		if !strings.Contains(listed, host+path) {
			t.Errorf("%s is not stored:\n%s", path, listed)
		}
		if n := o.count(path); n < 1 || n > 2 { // the one that was killed, and one more
			t.Errorf("%s was rendered %d times", path, n)
		}
	}
}
