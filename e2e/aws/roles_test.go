package aws

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/e2e/internal/process"
	"github.com/facetheory/isr/gc"
	"github.com/facetheory/isr/internal/testbed"
	"github.com/facetheory/isr/isrtest"
	"github.com/facetheory/isr/s3body"
	"github.com/facetheory/isr/store"
)

func TestMain(m *testing.M) { os.Exit(process.Main(m)) }

const region = "us-east-1"

// callTime bounds a call of DynamoDB Local, which many tests use at the same time.
const callTime = time.Minute

// An installation is a table, a bucket and queues of purges and regenerations, on stand-ins for AWS, made by an
// administrator; roles use them through guards.
type installation struct {
	dynamodb, s3, sqs  string // the servers
	name               string // of the table and the bucket
	purges             string // the URL of a queue at the server
	regenerations      string // the same
	table              *dynamodb.Client
	access, secret     string
	origin             string
	allTables          bool // every table counts as the installation's
	credentialProvider aws.CredentialsProvider
}

func install(t *testing.T) *installation {
	t.Helper()
	in := &installation{
		dynamodb: isrtest.Engine(t, "ISR_TEST_DYNAMODB", "DynamoDB Local"),
		s3:       isrtest.Engine(t, "ISR_TEST_S3", "S3 server"),
		sqs:      isrtest.Engine(t, "ISR_TEST_SQS", "SQS server"),
		name:     "isr-aws-" + strings.ToLower(rand.Text()),
		access:   os.Getenv("ISR_TEST_S3_ACCESS_KEY"), secret: os.Getenv("ISR_TEST_S3_SECRET_KEY"),
	}
	in.credentialProvider = credentials.NewStaticCredentialsProvider(in.access, in.secret, "")
	in.table = in.dynamodbAt(in.dynamodb)
	testbed.DropTable(t, in.table, in.name)
	if err := dynamostore.CreateTable(t.Context(), in.table, in.name); err != nil {
		t.Fatal(err)
	}
	if _, err := in.s3At(in.s3).CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &in.name}); err != nil {
		t.Fatal(err)
	}
	in.purges = in.createQueue(t, "-purges", nil)
	in.regenerations = in.createQueue(t, "-regenerations.fifo", map[string]string{"FifoQueue": "true"})
	var rendered sync.Map
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=1, stale-while-revalidate=1000")
		w.Header().Set("Cache-Tag", "all")
		switch _, again := rendered.LoadOrStore(r.URL.Path, true); {
		case r.URL.Path == "/gone":
			w.WriteHeader(http.StatusNotFound)
		case r.URL.Path == "/breaks" && again:
			w.WriteHeader(http.StatusInternalServerError)
		}
		fmt.Fprintf(w, "page %s %s %s", r.URL.Path, rand.Text(), strings.Repeat("x", 4<<10))
	}))
	t.Cleanup(site.Close)
	in.origin = site.URL
	return in
}

func (in *installation) createQueue(t *testing.T, suffix string, attributes map[string]string) (url string) {
	t.Helper()
	created, err := in.sqsAt(in.sqs).CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String(in.name + suffix), Attributes: attributes})
	if err != nil {
		t.Fatal(err)
	}
	return *created.QueueUrl
}

func (in *installation) dynamodbAt(endpoint string) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{Region: region, BaseEndpoint: &endpoint, Credentials: in.credentialProvider})
}

func (in *installation) s3At(endpoint string) *s3.Client {
	return s3.New(s3.Options{Region: region, BaseEndpoint: &endpoint, UsePathStyle: true, Credentials: in.credentialProvider})
}

func (in *installation) sqsAt(endpoint string) *sqs.Client {
	return sqs.New(sqs.Options{Region: region, BaseEndpoint: &endpoint, Credentials: in.credentialProvider})
}

// A role reaches an installation with the permissions of a policy.
type role struct {
	*installation
	policy               *policy
	dynamodb, s3, queues string // the guards, or the servers
}

// role returns a role with the permissions of policies.
func (in *installation) role(t *testing.T, ids ...string) *role {
	t.Helper()
	r := &role{installation: in, policy: readPolicy(t, ids[0])}
	for _, id := range ids[1:] {
		r.policy.allowed = append(r.policy.allowed, readPolicy(t, id).allowed...)
	}
	named := func(prefix, resource string) func(string) string {
		return func(name string) string {
			if in.allTables || strings.HasSuffix(name, prefix) {
				return resource
			}
			return "another: " + name
		}
	}
	r.dynamodb = newGuard(t, r.policy, in.dynamodb, dynamodbCalls(named(in.name, "Table")))
	r.s3 = newGuard(t, r.policy, in.s3, s3Calls(func(bucket, key string) string {
		if bucket == in.name {
			return "Bucket/" + key
		}
		return named(in.name, "Bucket/bodies/")(bucket) + key
	}))
	r.queues = newGuard(t, r.policy, in.sqs, sqsCalls(func(url string) string {
		if strings.HasSuffix(url, in.name+"-regenerations.fifo") {
			return "RegenerationQueue"
		}
		return named(in.name+"-purges", "PurgeQueue")(url)
	}))
	return r
}

// command returns a command of isr with the permissions of the role.
func (r *role) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(process.Binary(t, "../.."), args...)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{
		"HOME=" + cmd.Dir, "PATH=" + os.Getenv("PATH"), "AWS_EC2_METADATA_DISABLED=true",
		"AWS_ACCESS_KEY_ID=" + r.access, "AWS_SECRET_ACCESS_KEY=" + r.secret,
		"ISR_TABLE=" + r.name, "ISR_BUCKET=" + r.name, "ISR_REGION=" + region,
		"ISR_DYNAMODB_ENDPOINT=" + r.dynamodb, "ISR_S3_ENDPOINT=" + r.s3,
	}
	if len(args) == 0 || args[0] != "worker" { // which has no visitors to wait
		cmd.Env = append(cmd.Env, "ISR_STORE_TIMEOUT=10s")
	}
	return cmd
}

// run runs a command, which must succeed, and returns its output.
func (r *role) run(t *testing.T, args ...string) string {
	t.Helper()
	cmd := r.command(t, args...)
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("isr %q: %v\n%s%s", args, err, out, &failure)
	}
	return string(out)
}

var (
	announced    = regexp.MustCompile(`msg="serving (http://[^ ",]+)`)
	regenerating = regexp.MustCompile(`msg="regenerating pages" queue=(\S+)`)
)

// serve starts a server with the permissions of the role.
func (r *role) serve(t *testing.T, args ...string) (url string, stop func()) {
	t.Helper()
	args = append([]string{"serve", "--origin", r.origin, "--listen", "127.0.0.1:0", "--history", "2", "--purge-queue", r.at(r.purges), "--vary", "Accept-Language"}, args...)
	p, url := process.Serve(t, r.command(t, args...), announced)
	return url, func() {
		p.Terminate(t)
		p.AwaitEnd(t, time.Minute)
	}
}

// at returns the URL of a queue at the guard of the role.
func (r *role) at(queue string) string {
	_, path, _ := strings.Cut(strings.TrimPrefix(queue, "http://"), "/")
	return r.queues + "/" + path
}

func get(t *testing.T, url string, header ...string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.Header.Get("Cache-Status")
}

// await polls until ready, for five minutes.
func await(t *testing.T, what string, ready func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !ready(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited a minute for %s", what)
		}
	}
}

// administrator returns a role without a policy.
func (in *installation) administrator() *role {
	return &role{installation: in, dynamodb: in.dynamodb, s3: in.s3, queues: in.sqs}
}

// publish renders a page until three generations of it were published.
func (in *installation) publish(t *testing.T, page string) {
	t.Helper()
	r, generations := in.administrator(), make(map[string]bool)
	await(t, "three generations of "+page, func() bool {
		get(t, page)
		for _, id := range generation.FindAllString(r.run(t, "get", page, "--json"), -1) {
			generations[id] = true
		}
		return len(generations) >= 3
	})
}

var generation = regexp.MustCompile(`"generation_id": ?"[^"]+"`)

// TestServingPolicy: isr serve, and the suites of its stores, need the policy, and all of it.
func TestServingPolicy(t *testing.T) {
	t.Parallel()
	in := install(t)
	r := in.role(t, "ServingPolicy")
	url, stop := r.serve(t)
	for _, path := range []string{"/", "/a", "/b", "/gone"} {
		get(t, url+path)
		get(t, url+path, "Accept-Language", "fr")
	}
	in.publish(t, url+"/a")
	r.policy.outage.Store(true)
	if _, err := in.sqsAt(in.sqs).SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &in.purges, MessageBody: aws.String(`{"targets":[{"tag":"all"}]}`)}); err != nil {
		t.Fatal(err)
	}
	// While the table does not answer, the message is kept invisible.
	r.policy.await(t, call{"sqs:ChangeMessageVisibility", "PurgeQueue"})
	r.policy.outage.Store(false)
	await(t, "the purge", func() bool { return strings.Contains(in.administrator().run(t, "get", url+"/b"), "purged") })
	// A POST purges the page that it changes.
	response, err := http.Post(url+"/b", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	stop()
	url, stop = r.serve(t, "--regenerate-queue", r.at(in.regenerations)) // it reads what is stored
	await(t, "a stale page to be sent to the queue", func() bool {
		get(t, url+"/a")
		return r.policy.uses(call{"sqs:SendMessage", "RegenerationQueue"}) > 0
	})
	stop()
	t.Run("suites", func(t *testing.T) { in.suites(t, r.policy) })
	r.policy.check(t)
}

// TestWorkerPolicy: so does isr worker, with the variables of the templates, for pages that a server
// sends to the queue: they are regenerated, or left for a while if the site fails. What its stores call
// for pages other than these, they call in servers, too.
func TestWorkerPolicy(t *testing.T) {
	t.Parallel()
	in := install(t)
	admin := in.administrator()
	url, stop := admin.serve(t, "--regenerate-queue", in.regenerations)
	defer stop()
	r := in.role(t, "WorkerPolicy")
	cmd := r.command(t, "worker", "--history", "2", "--vary", "Accept-Language")
	cmd.Env = append(cmd.Env, "ISR_ORIGIN="+in.origin, "ISR_QUEUE="+r.at(in.regenerations), "ISR_CONCURRENCY=4")
	worker, _ := process.Serve(t, cmd, regenerating)
	in.publish(t, url+"/a")
	await(t, "a page that cannot be regenerated to be left for later", func() bool {
		get(t, url+"/breaks")
		return r.policy.uses(call{"sqs:ChangeMessageVisibility", "RegenerationQueue"}) > 0
	})
	admin.run(t, "purge", "--tag", "all")
	in.publish(t, url+"/a")
	worker.Terminate(t)
	worker.AwaitEnd(t, time.Minute)
	r.policy.check(t, readPolicy(t, "ServingPolicy").allowed...)
}

// suites runs the suites of the stores, which call what servers and garbage collection call together,
// and counts in served what a policy for servers allows of it.
func (in *installation) suites(t *testing.T, served *policy) {
	in.allTables = true // each test has a table or a bucket of its own
	r := in.role(t, "ServingPolicy", "CollectionPolicy")
	t.Run("MetaStore", func(t *testing.T) { isrtest.MetaStore(t, r.metaStore) })
	t.Run("BodyStore", func(t *testing.T) { isrtest.BodyStore(t, r.bodyStore) })
	for text := range r.policy.refused {
		t.Errorf("the policies refused %s", text)
	}
	for c, n := range r.policy.used {
		served.used[c] += n
	}
}

// metaStore opens the storage of a test of the suite.
func (r *role) metaStore(t *testing.T) isrtest.MetaStoreOpener {
	name := r.name + "-" + strings.ToLower(rand.Text())
	testbed.DropTable(t, r.table, name)
	if err := dynamostore.CreateTable(t.Context(), r.table, name); err != nil {
		t.Fatal(err)
	}
	return func(owner string, now func() time.Time) store.MetaStore {
		s, err := dynamostore.New(r.dynamodbAt(r.dynamodb), name, dynamostore.Config{Owner: owner, Now: now, CallTimeout: callTime})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// bodyStore opens the storage of a test of the suite.
func (r *role) bodyStore(t *testing.T) store.BodyStore {
	name := r.name + "-" + strings.ToLower(rand.Text())[:12]
	if _, err := r.s3At(r.installation.s3).CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &name}); err != nil {
		t.Fatal(err)
	}
	s, err := s3body.New(r.s3At(r.s3), name, s3body.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestCollectionPolicy: so does isr gc, which finds garbage two hours, and pins to renew eighty days,
// after the pages were made.
func TestCollectionPolicy(t *testing.T) {
	t.Parallel()
	in := install(t)
	admin := in.administrator()
	url, stop := admin.serve(t)
	for range 2 {
		in.publish(t, url+"/a")
	}
	admin.run(t, "purge", "--tag", "other")
	admin.run(t, "purge", "--all") // which includes the tag
	// The first render may begin before the server knows of the purge, which covers it then.
	in.publish(t, url+"/b")
	admin.run(t, "pin", url+"/b")
	stop()
	r := in.role(t, "CollectionPolicy")
	r.run(t, "gc")
	bodies, err := s3body.New(in.s3At(r.s3), in.name, s3body.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, later := range []time.Duration{2 * time.Hour, 80 * 24 * time.Hour} {
		now := func() time.Time { return time.Now().Add(later) }
		meta, err := dynamostore.New(in.dynamodbAt(r.dynamodb), in.name, dynamostore.Config{Now: now, CallTimeout: callTime})
		if err != nil {
			t.Fatal(err)
		}
		done, err := gc.Collect(t.Context(), meta, olderBodies{bodies, later}, gc.CollectOptions{Grace: time.Hour, Now: now})
		if err != nil {
			t.Errorf("%s later: %v", later, err)
		}
		pins, err := gc.RenewPins(t.Context(), meta, gc.RenewOptions{Now: now})
		if err != nil {
			t.Errorf("%s later: %v", later, err)
		}
		t.Logf("%s later: %+v, %d pins", later, done, pins)
	}
	r.policy.check(t)
}

// olderBodies are the bodies of a bucket when its clock has gone on.
type olderBodies struct {
	*s3body.Store
	by time.Duration
}

func (o olderBodies) List(ctx context.Context, prefix string) iter.Seq2[store.BodyInfo, error] {
	return func(yield func(store.BodyInfo, error) bool) {
		for info, err := range o.Store.List(ctx, prefix) {
			info.ModifiedAt = info.ModifiedAt.Add(-o.by)
			if !yield(info, err) {
				return
			}
		}
	}
}

// TestOperatorPolicy: so do commands that only read.
func TestOperatorPolicy(t *testing.T) {
	t.Parallel()
	in := install(t)
	url, stop := in.administrator().serve(t)
	in.publish(t, url+"/a")
	stop()
	r, page := in.role(t, "OperatorPolicy"), url+"/a"
	if out := r.run(t, "ls"); !strings.Contains(out, "/a") {
		t.Errorf("isr ls: %s", out)
	}
	for _, args := range [][]string{
		{"get", page}, {"versions", page}, {"diff", page}, {"lease", page}, {"outbox"}, {"quarantine"}, {"purge", "--tag", "all", "--dry-run"}, {"gc", "--dry-run"},
	} {
		r.run(t, args...)
	}
	r.policy.check(t)
}

// TestChangesPolicy: so do commands of operators that change what is stored, with the policy for reading.
func TestChangesPolicy(t *testing.T) {
	t.Parallel()
	in := install(t)
	url, stop := in.administrator().serve(t, "--history=3")
	in.publish(t, url+"/a")
	stop()
	r, page := in.role(t, "OperatorPolicy", "ChangesPolicy"), url+"/a"
	for _, args := range [][]string{
		{"rollback", page}, {"unpin", page}, {"pin", page}, {"unpin", page}, {"lease", page, "--release"}, {"purge", page}, {"purge", "--tag", "news"}, {"purge", "--all"},
	} {
		r.run(t, args...)
	}
	r.policy.check(t, readPolicy(t, "OperatorPolicy").allowed...)
}
