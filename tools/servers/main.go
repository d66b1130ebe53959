// Servers runs the servers that ./test needs, each on a free port of 127.0.0.1: DynamoDB
// Local, isr dynamodb, versitygw (S3) and ElasticMQ (SQS).
//
//	servers TOOLS LOGS
//
// TOOLS is the folder .tools, in which they are installed; those that are not, and without
// Java those that need it, are left out. Each writes a log to LOGS. Once all accept
// connections, servers prints the settings of the tests, as lines "export NAME=VALUE", and
// closes its standard output. It fails if a server does not listen within three minutes.
//
// On SIGINT or SIGTERM, and when its parent process has ended, it stops the servers,
// deletes their data and exits.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// The credentials of the S3 server; DynamoDB Local and ElasticMQ accept any.
const access, secret = "isrtest", "isrtestsecret"

// Options of Java for servers that run for some minutes on few processors: what the optimizing
// compiler and a concurrent collector save is less than what they cost. DynamoDB Local used 25 s of
// CPU instead of 54 s for the tests of dynamostore and tabletheory.
const serialGC, firstTier = "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: servers TOOLS LOGS")
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(untilOrphaned(ctx), os.Args[1], os.Args[2], os.Stdout); err != nil {
		log.Fatalf("servers: %v", err)
	}
}

// untilOrphaned returns a context that is also done once the parent process has ended.
func untilOrphaned(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	parent := os.Getppid()
	go func() {
		defer cancel()
		for ctx.Err() == nil && os.Getppid() == parent {
			time.Sleep(100 * time.Millisecond)
		}
	}()
	return ctx
}

func run(ctx context.Context, tools, logs string, out io.WriteCloser) (err error) {
	data, err := os.MkdirTemp(tools, "servers.")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(data)) }()
	tables, err := os.MkdirTemp(memory(data), tablesOf(os.Getpid()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tables)) }()
	servers, settings, err := installed(tools, data, tables)
	if err != nil {
		return err
	}
	defer func() {
		for _, s := range servers {
			s.stop()
		}
	}()
	for _, s := range servers {
		if err := s.start(logs); err != nil {
			return err
		}
	}
	for _, s := range servers {
		if err := s.await(ctx); err != nil {
			return err
		}
	}
	// In one write, so that a reader of the file finds all settings or none.
	if _, err := io.WriteString(out, "export "+strings.Join(settings, "\nexport ")+"\n"); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// tablesOf is the pattern of the folder in which a process has the tables of isr dynamodb.
func tablesOf(pid int) string { return fmt.Sprintf("isr-servers-%d.*", pid) }

// memory returns a folder whose files are in memory, if there is one with 2 GiB of room, and
// otherwise data. No test needs the tables after a power failure, and without waiting for the disk
// the tests of the clients on isr dynamodb take half the time.
func memory(data string) string {
	const shared, room = "/dev/shm", 2 << 30
	var fs syscall.Statfs_t
	if err := syscall.Statfs(shared, &fs); err != nil || fs.Bavail*uint64(fs.Bsize) < room {
		return data
	}
	return shared
}

// installed returns the servers that are installed, and the settings of the tests that use
// them.
func installed(tools, data, tables string) (servers []*server, settings []string, err error) {
	ports := newPorts()
	var engines []string
	if isr := filepath.Join(tools, "bin", "isr"); exists(isr) {
		port := ports.free()
		servers = append(servers, &server{name: "isr-dynamodb", port: port, cmd: exec.Command(isr, "dynamodb", "--listen", address(port), "--data", tables)})
		engines = append(engines, "localdynamo=http://"+address(port))
	}
	if versity := filepath.Join(tools, "bin", "versitygw"); exists(versity) {
		port, buckets := ports.free(), filepath.Join(data, "s3")
		if err := os.Mkdir(buckets, 0o700); err != nil {
			return nil, nil, err
		}
		cmd := exec.Command(versity, "--port", address(port), "posix", buckets)
		cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+access, "ROOT_SECRET_KEY="+secret)
		servers = append(servers, &server{name: "versitygw", port: port, cmd: cmd})
		settings = append(settings, "ISR_TEST_S3=http://"+address(port), "ISR_TEST_S3_ACCESS_KEY="+access, "ISR_TEST_S3_SECRET_KEY="+secret)
	}
	if java, err := exec.LookPath("java"); err == nil {
		if jars := filepath.Join(tools, "elasticmq"); exists(jars) {
			port := ports.free()
			servers = append(servers, &server{name: "elasticmq", port: port, cmd: exec.Command(java, serialGC, firstTier, fmt.Sprint("-Dnode-address.port=", port),
				fmt.Sprint("-Drest-sqs.bind-port=", port), "-Drest-sqs.bind-hostname=127.0.0.1", "-Drest-stats.enabled=false",
				"-cp", filepath.Join(jars, "*"), "org.elasticmq.server.Main")})
			settings = append(settings, "ISR_TEST_SQS=http://"+address(port))
		}
		local, err := filepath.Glob(filepath.Join(tools, "amplify-dynamodb-simulator@*"))
		if err != nil {
			return nil, nil, err
		}
		if len(local) == 1 {
			port := ports.free()
			// With -sharedDb all credentials see the same tables.
			cmd := exec.Command(java, serialGC, firstTier, "-Djava.library.path=./DynamoDBLocal_lib", "-jar", "DynamoDBLocal.jar", "-inMemory", "-sharedDb", "-port", fmt.Sprint(port))
			cmd.Dir = local[0]
			servers = append(servers, &server{name: "dynamodb-local", port: port, cmd: cmd})
			settings = append(settings, "ISR_TEST_DYNAMODB=http://"+address(port))
			engines = append(engines, "dynamodb-local=http://"+address(port))
		}
	}
	return servers, append(settings, "ISR_TEST_ENGINES="+strings.Join(engines, ",")), nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
