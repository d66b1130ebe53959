package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/cmd/isr/server"
	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/internal/config"
	"github.com/facetheory/isr/internal/doctor"
	"github.com/facetheory/isr/internal/embedded"
	"github.com/facetheory/isr/s3body"
	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/trigger/queue"
)

// An installation is what isr doctor examines: a server, a configuration file, and stores.
type installation struct {
	path    string // of the configuration file; empty if there is none
	fileErr error
	serve   server.ServeCommand // with the settings of the file
	aws     *aws.Config         // nil if there is no table
	awsErr  error

	running   bool // the server has described itself
	remote    bool // it is on another machine
	serverErr error
	process   admin.Process

	secrets []string
}

// askTime bounds asking a server for its description.
const askTime = 5 * time.Second

// look finds the installation. Mistakes in it are findings; an error is one of the command
// line.
func (c *doctorCommand) look(ctx context.Context) (*installation, error) {
	in := &installation{serve: server.ServeCommand{StoreFlags: c.StoreFlags, Memory: 256 << 20, RegenerateQueue: c.RegenerateQueue, TriggerFlags: server.TriggerFlags{PurgeQueue: c.PurgeQueue}}, secrets: environmentSecrets(), path: c.Config}
	if _, err := os.Stat("isr.yaml"); in.path == "" && err == nil {
		in.path = "isr.yaml"
	}
	if c.Origin != "" {
		if _, err := gateway.ParseOrigin(c.Origin); err != nil {
			return nil, cli.Usagef("--origin: %v", err)
		}
	}
	file, err := c.fileOfOrigin()
	if err != nil {
		return nil, err
	}
	if in.path != "" {
		var named *config.File
		if named, in.fileErr = server.ReadConfig(in.path); in.fileErr == nil {
			file = named
			in.secrets = append(in.secrets, file.Secrets()...)
			in.fileErr = in.serve.Adopt(file)
		}
	}
	if err := in.serve.StoreFlags.Check(); err != nil {
		return nil, err
	}
	if token, err := os.ReadFile(filepath.Join(in.serve.Data, "admin.token")); err == nil {
		in.secrets = append(in.secrets, strings.TrimSpace(string(token)))
	}
	in.process = server.ProcessOf(file, int64(in.serve.Memory))
	in.ask(ctx, c.Server)
	if in.serve.Table != "" {
		in.credentials(ctx)
	}
	return in, nil
}

// fileOfOrigin returns the file that is equivalent to --origin.
func (c *doctorCommand) fileOfOrigin() (*config.File, error) {
	if c.Origin == "" {
		return new(config.File), nil
	}
	return (&server.ServeCommand{Origin: c.Origin, EdgeFlags: server.EdgeFlags{MaxOriginConnections: 256}, RenderFlags: server.RenderFlags{MaxRenders: 16}}).FileOfFlags(nil)
}

// environmentSecrets returns the values of variables whose names mark them as secret.
func environmentSecrets() (all []string) {
	for _, text := range os.Environ() {
		name, value, _ := strings.Cut(text, "=")
		for _, word := range []string{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "_KEY"} {
			if strings.Contains(strings.ToUpper(name), word) && !strings.HasSuffix(name, "_FILE") {
				all = append(all, value)
				break
			}
		}
	}
	return all
}

// ask asks the server at a URL, else the server of the data folder.
func (in *installation) ask(ctx context.Context, address string) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var transport http.RoundTripper
	token := os.Getenv(server.TokenVariable)
	if address == "" {
		if transport = server.DialSocket(ctx, in.serve.Data); transport == nil {
			return
		}
		address, token = "http://localhost", ""
	}
	client, err := admin.NewClient(address, token, transport)
	if err == nil {
		var p admin.Process
		if p, err = client.Process(ctx); err == nil {
			in.process, in.running = p, true
			in.remote = transport == nil && !client.Local()
			in.useStores(p)
		}
	}
	in.serverErr = err
}

// useStores takes table and bucket from the server, unless they are given.
func (in *installation) useStores(p admin.Process) {
	if f := &in.serve.StoreFlags; f.Table == "" && p.Table != "" {
		f.Table, f.Bucket, f.DynamodbEndpoint, f.S3Endpoint = p.Table, p.Bucket, p.DynamoDB, p.S3
		f.Region = cmp.Or(f.Region, p.Region)
	}
}

// credentials loads the configuration of AWS.
func (in *installation) credentials(ctx context.Context) {
	cfg, err := in.serve.AWSConfig(ctx, slog.New(slog.DiscardHandler))
	if err != nil {
		in.awsErr = err
		return
	}
	cfg.RetryMaxAttempts = 2
	in.aws = &cfg
	if c, err := cfg.Credentials.Retrieve(ctx); err == nil {
		in.secrets = append(in.secrets, c.AccessKeyID, c.SecretAccessKey, c.SessionToken)
	}
}

// exists reports whether there is anything to examine but the site.
func (in *installation) exists() bool {
	_, err := os.Stat(embedded.EngineFile(in.serve.Data))
	return in.path != "" || in.running || in.serverErr != nil || in.serve.Table != "" || err == nil
}

// checks returns all checks of the installation.
func (in *installation) checks() []doctor.Check {
	checks := []doctor.Check{in.configuration(), in.server()}
	var clocks []doctor.Clock
	p := in.describe()
	for _, o := range in.process.Origins {
		origin := doctor.Origin(o)
		p.Connections += origin.Connections
		if in.remote {
			continue
		}
		checks = append(checks, doctor.OriginCheck(origin))
		for _, address := range origin.URLs {
			clocks = append(clocks, origin.ClockOf(address))
		}
	}
	if len(in.process.Origins) == 0 {
		checks = append(checks, found("origin", doctor.Finding{Severity: doctor.Note, What: "no origin is known", Do: "give the file or the site: isr doctor --config isr.yaml, or --origin http://127.0.0.1:3000"}))
	}
	stores := in.embedded
	if in.serve.Table != "" {
		stores = in.shared
		clocks = append(clocks, in.clocksOfAWS()...)
	}
	checks = append(checks, doctor.Clocks(clocks, time.Now))
	checks = append(checks, stores()...)
	checks = append(checks, in.queues()...)
	return append(checks, doctor.Limits(p), doctor.Proxies(p))
}

// found returns a check whose result is known.
func found(name string, f ...doctor.Finding) doctor.Check {
	return doctor.Check{Name: name, Run: func(context.Context) []doctor.Finding { return f }}
}

// configuration reports what is wrong with the file.
func (in *installation) configuration() doctor.Check {
	switch {
	case in.path == "":
		return found("config", doctor.Finding{Severity: doctor.OK, What: "no configuration file; flags and variables only"})
	case in.fileErr != nil:
		return found("config", doctor.Finding{Severity: doctor.Fault, What: in.path + " is not valid", Evidence: strings.Split(in.fileErr.Error(), "\n"), Do: "isr config check " + in.path})
	}
	return found("config", doctor.Finding{Severity: doctor.OK, What: in.path + " is valid"})
}

// server reports the server that was asked.
func (in *installation) server() doctor.Check {
	p := in.process
	switch {
	case in.serverErr != nil:
		return found("server", doctor.Finding{
			Severity: doctor.Fault, What: "the server does not answer", Evidence: []string{in.serverErr.Error()},
			Do: "check that isr serve runs there, in this version, and that ISR_ADMIN_TOKEN is its token",
		})
	case !in.running:
		return found("server", doctor.Finding{Severity: doctor.Note, What: "no server runs in " + in.serve.Data, Do: "start it for findings about its limits and proxies, or name it: --data DIR, or --server URL"})
	case in.remote:
		return found("server", doctor.Finding{
			Severity: doctor.Note, What: fmt.Sprintf("%s runs version %s on another machine: its origins and its data folder are not examined from here", p.Name, p.Version), Do: "run isr doctor on that machine",
		})
	case p.Version != cli.Version():
		return found("server", doctor.Finding{
			Severity: doctor.Warning, What: fmt.Sprintf("%s runs version %s, and this program is %s", p.Name, p.Version, cli.Version()), Do: "restart the server with the newer one",
		})
	}
	return found("server", doctor.Finding{Severity: doctor.OK, What: fmt.Sprintf("%s runs version %s since %s, with configuration %s", p.Name, p.Version, p.Started.UTC().Format(time.DateTime), cmp.Or(p.Config, "unknown"))})
}

// describe returns the process for the checks: the server's, else this one.
func (in *installation) describe() doctor.Process {
	p := in.process
	if !in.running {
		l := server.ReadSystemLimits()
		p.Files, p.OpenFiles, p.Limit = l.Files, l.OpenFiles, l.Memory
	}
	d := doctor.Process{
		Running: in.running, Files: p.Files, OpenFiles: p.OpenFiles, Memory: p.Memory, MemoryNeed: server.MemoryNeed(p.Memory, server.DefaultBuffers(p.Memory)), MemoryLimit: p.Limit, Requests: p.Requests, Scheme: p.Scheme, SchemeAdvice: p.SchemeAdvice,
	}
	for _, l := range p.Listeners {
		d.Listeners = append(d.Listeners, doctor.Listener(l))
	}
	for _, peer := range p.Peers {
		d.Peers = append(d.Peers, doctor.Peer(peer))
	}
	return d
}

// embedded returns the checks of a data folder.
func (in *installation) embedded() []doctor.Check {
	folder := doctor.Folder{Path: in.serve.Data, Answers: in.running, Open: func(ctx context.Context) error {
		st, err := in.serve.StoreFlags.Open(ctx, false, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		return st.Close()
	}}
	if in.serve.Disk != nil {
		folder.Bound = int64(*in.serve.Disk)
	}
	if _, err := os.Stat(folder.Path); in.remote || errors.Is(err, fs.ErrNotExist) && in.running {
		return nil // the server's is another one
	}
	return []doctor.Check{doctor.Disk(folder)}
}

// shared returns the checks of a table and a bucket.
func (in *installation) shared() []doctor.Check {
	f := in.serve.StoreFlags
	if in.awsErr != nil {
		return []doctor.Check{found("table", doctor.Finding{Severity: doctor.Fault, What: "the AWS configuration cannot be used", Evidence: []string{in.awsErr.Error()}, Do: "set region and credentials; see them with: aws sts get-caller-identity"})}
	}
	ddb, bucket := f.DynamoDB(*in.aws), f.S3Client(*in.aws)
	bodies, err := s3body.New(bucket, f.Bucket, s3body.Config{})
	if err != nil {
		return []doctor.Check{found("bucket", doctor.Finding{Severity: doctor.Fault, What: err.Error(), Do: "correct store.bucket (--bucket)"})}
	}
	nodes := func(ctx context.Context) ([]store.Node, error) {
		meta, err := dynamostore.New(ddb, f.Table, dynamostore.Config{})
		if err != nil {
			return nil, err
		}
		return meta.Nodes(ctx)
	}
	return []doctor.Check{doctor.Table(ddb, f.Table), doctor.Bucket(bucket, bodies, f.Bucket), doctor.Fleet(nodes, time.Now)}
}

// queues returns the checks of the queues that the settings name.
func (in *installation) queues() (checks []doctor.Check) {
	for _, q := range []struct{ flag, url, purpose string }{
		{"--regenerate-queue", in.serve.RegenerateQueue, "regenerations"}, {"--purge-queue", in.serve.PurgeQueue, "purges"},
	} {
		if q.url == "" {
			continue
		}
		checks = append(checks, doctor.Check{Name: "queue", Run: func(ctx context.Context) []doctor.Finding {
			err := queue.ValidURL(q.url)
			if err != nil {
				return []doctor.Finding{{Severity: doctor.Fault, What: q.flag + " " + err.Error(), Do: "correct the URL"}}
			}
			client, err := in.serve.SQS(ctx, q.flag, q.url, slog.New(slog.DiscardHandler))
			if err != nil {
				return []doctor.Finding{{Severity: doctor.Fault, What: "the AWS configuration cannot be used for the queue of " + q.purpose, Evidence: []string{err.Error()}, Do: "set region and credentials; see them with: aws sts get-caller-identity"}}
			}
			return doctor.Queue(client, q.url, q.purpose).Run(ctx)
		}})
	}
	return checks
}

// clocksOfAWS are the clocks of DynamoDB and S3, which date each response.
func (in *installation) clocksOfAWS() []doctor.Clock {
	if in.aws == nil {
		return nil
	}
	f := in.serve.StoreFlags
	dated := func(ask func(context.Context, aws.Config) error) func(context.Context) (http.Header, error) {
		return func(ctx context.Context) (http.Header, error) {
			cfg, d := in.aws.Copy(), &datedClient{inner: cmp.Or[aws.HTTPClient](in.aws.HTTPClient, http.DefaultClient)}
			cfg.HTTPClient, cfg.RetryMaxAttempts = d, 1
			err := ask(ctx, cfg)
			return d.result(err)
		}
	}
	return []doctor.Clock{
		{Name: "DynamoDB", Header: dated(func(ctx context.Context, cfg aws.Config) error {
			_, err := f.DynamoDB(cfg).DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &f.Table})
			return err
		})},
		{Name: "S3", Header: dated(func(ctx context.Context, cfg aws.Config) error {
			_, err := f.S3Client(cfg).HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &f.Bucket})
			return err
		})},
	}
}

// A datedClient keeps the header of the last response.
type datedClient struct {
	inner aws.HTTPClient

	mu     sync.Mutex
	header http.Header // guarded by mu; nil before a response
}

func (d *datedClient) Do(r *http.Request) (*http.Response, error) {
	res, err := d.inner.Do(r)
	if err == nil {
		d.mu.Lock()
		d.header = res.Header.Clone()
		d.mu.Unlock()
	}
	return res, err
}

// result returns the header of the response, even of an error response. It returns err if there was no response.
func (d *datedClient) result(err error) (http.Header, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.header == nil {
		return nil, err
	}
	return d.header, nil
}
