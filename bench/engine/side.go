package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/facetheory/isr/bench/internal/process"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/facetheory/isr/localdynamo"
)

const (
	root          = ".."                                // of the repository, seen from the folder bench
	dynamoDBLocal = "amplify-dynamodb-simulator@2.9.30" // as in tools/install.sh; its folder "emulator"
	dynalite      = "dynalite@4.0.0"
)

// A side is one of the servers that are compared.
type side struct {
	name, title string
	promise     string // durability of an acknowledged write
	// command prepares a server with a folder of its own, and returns a function that
	// makes the command to start it on an address. It is nil for the engine in this process.
	command         func(ctx context.Context, dir string) (func(address string) *exec.Cmd, error)
	keeps           bool // its items survive a restart
	untransactional bool
}

const ours = "wire"

func allSides() []side {
	return []side{
		{name: "in-process", title: "localdynamo, in process", promise: "on disk, fsynced"},
		{name: ours, title: "localdynamo", promise: "on disk, fsynced", command: isr, keeps: true},
		{name: "memory", title: "DynamoDB Local, in memory", promise: "nothing, it is in memory", command: javaInMemory},
		{name: "disk", title: "DynamoDB Local, on disk", promise: "on disk, in SQLite", command: javaOnDisk, keeps: true},
		{name: "dynalite", title: "dynalite, in memory", promise: "nothing, it is in memory", command: node, untransactional: true},
	}
}

func sideNames() []string {
	var names []string
	for _, s := range allSides() {
		names = append(names, s.name)
	}
	return names
}

// chooseSides returns the sides in a comma-separated list of names, or all. With an
// address for profiles, localdynamo runs in a server of this command.
func chooseSides(list, profile string) ([]side, error) {
	all := allSides()
	if profile != "" {
		all[slices.Index(sideNames(), ours)].command = ownServer(profile)
	}
	if list == "" {
		return all, nil
	}
	var chosen []side
	for name := range strings.SplitSeq(list, ",") {
		at := slices.Index(sideNames(), name)
		if at < 0 {
			return nil, fmt.Errorf("-sides must be names among %s (got %q)", strings.Join(sideNames(), ", "), name)
		}
		chosen = append(chosen, all[at])
	}
	return chosen, nil
}

// supports reports whether the side has the operation.
func (s side) supports(op operation) bool { return op.name != transactRow || !s.untransactional }

// isr builds the command as users get it.
func isr(ctx context.Context, dir string) (func(string) *exec.Cmd, error) {
	binary, err := process.BuildISR(ctx, root, dir)
	if err != nil {
		return nil, err
	}
	return func(address string) *exec.Cmd {
		return exec.CommandContext(ctx, binary, "dynamodb", "--listen", address, "--data", filepath.Join(dir, "data"))
	}, nil
}

// ownServer runs this command as a server; see runServer.
func ownServer(profile string) func(context.Context, string) (func(string) *exec.Cmd, error) {
	return func(ctx context.Context, dir string) (func(string) *exec.Cmd, error) {
		self, err := os.Executable()
		return func(address string) *exec.Cmd {
			return exec.CommandContext(ctx, self, "-serve", address, "-data", filepath.Join(dir, "data"), "-pprof", profile)
		}, err
	}
}

func javaInMemory(ctx context.Context, _ string) (func(string) *exec.Cmd, error) {
	return java(ctx, "-inMemory")
}

func javaOnDisk(ctx context.Context, dir string) (func(string) *exec.Cmd, error) {
	data := filepath.Join(dir, "data")
	if err := os.MkdirAll(data, 0o755); err != nil {
		return nil, err
	}
	return java(ctx, "-dbPath", data)
}

func java(ctx context.Context, arguments ...string) (func(string) *exec.Cmd, error) {
	folder, err := filepath.Abs(filepath.Join(root, ".tools", dynamoDBLocal))
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(folder, "DynamoDBLocal.jar")); err != nil {
		return nil, fmt.Errorf("DynamoDB Local is missing; run ./test once, and this command with go run -C bench: %w", err)
	}
	return func(address string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "java", append([]string{
			"-Djava.library.path=./DynamoDBLocal_lib", "-jar", "DynamoDBLocal.jar",
			"-sharedDb", "-disableTelemetry", "-port", port(address),
		}, arguments...)...)
		cmd.Dir = folder
		return cmd
	}, nil
}

func node(ctx context.Context, _ string) (func(string) *exec.Cmd, error) {
	folder := filepath.Join(root, ".tools", dynalite)
	script := filepath.Join(folder, "node_modules", "dynalite", "cli.js")
	if _, err := os.Stat(script); errors.Is(err, os.ErrNotExist) {
		fmt.Fprintln(os.Stderr, "installing", dynalite)
		install := exec.CommandContext(ctx, "npm", "install", "--prefix", folder, "--cache", filepath.Join(root, ".tools", "npm"), "--no-audit", "--no-fund", "--loglevel=error", dynalite)
		if out, err := install.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("npm install %s: %w\n%s", dynalite, err, out)
		}
	}
	return func(address string) *exec.Cmd {
		return exec.CommandContext(ctx, "node", script, "--host", "127.0.0.1", "--port", port(address), "--createTableMs", "0")
	}, nil
}

// An opponent is a side that is running and filled.
type opponent struct {
	side
	api    api
	server // zero in process
}

// open starts a side and fills its table.
func open(ctx context.Context, s side, dir string) (opponent, error) {
	dir = filepath.Join(dir, s.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return opponent{}, err
	}
	if s.command == nil {
		db, err := localdynamo.Open(filepath.Join(dir, "data"), localdynamo.Options{})
		if err != nil {
			return opponent{}, err
		}
		return filled(ctx, opponent{side: s, api: db, server: server{stop: db.Close}})
	}
	command, err := s.command(ctx, dir)
	if err != nil {
		return opponent{}, err
	}
	address, err := process.FreeAddress()
	if err != nil {
		return opponent{}, err
	}
	running, err := start(ctx, command(address), address)
	if err != nil {
		return opponent{}, fmt.Errorf("%s: %w", s.title, err)
	}
	return filled(ctx, opponent{side: s, api: dynamodb.New(clientOptions(address)), server: running})
}

func filled(ctx context.Context, o opponent) (opponent, error) {
	if err := fill(ctx, o.api); err != nil {
		return opponent{}, errors.Join(fmt.Errorf("%s: fill: %w", o.title, err), o.stop())
	}
	return o, nil
}

// A server is a running process that accepts connections.
type server struct {
	address string
	pid     int
	stop    func() error // may be called again
}

// start runs a server that listens on address, and returns when it accepts connections.
func start(ctx context.Context, cmd *exec.Cmd, address string) (server, error) {
	p, err := process.Start(ctx, cmd, process.Accepts(address))
	if err != nil {
		return server{}, err
	}
	return server{address: address, pid: p.ID, stop: p.Stop}, nil
}

// port returns the port of an address.
func port(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}
