// Package peer starts the HTTP caches that benchmarks compare: isr, nginx, Varnish and Apache Traffic
// Server. Those that are tuned for load, as their experts would tune them, are in tuned.go.
package peer

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/facetheory/isr/bench/internal/process"
)

// A Peer is a cache, or another server, that can be started in front of an origin.
type Peer struct {
	Name    string
	Note    string   // what a reader of its figures should know
	Durable string   // what it makes durable of the pages that it stores, and when
	program string   // that must be installed; empty for isr, which is built
	debian  string   // the package of the program
	version []string // the command that prints its version
	// command writes the files of a server into its folder, and returns the command that starts it.
	command func(Place) ([]string, error)
}

// A Place is where a server runs.
type Place struct {
	Dir     string // a folder of its own, which exists
	Address string // to listen on
	Origin  string // the address of the site behind it
	ISR     string // the binary of isr
}

// Noted returns the peer with a note.
func (p Peer) Noted(note string) Peer {
	p.Note = note
	return p
}

// Lasting returns the peer with what it makes durable.
func (p Peer) Lasting(durable string) Peer {
	p.Durable = durable
	return p
}

// A NotInstalledError says which program is missing, and how to install it.
type NotInstalledError struct{ Program, Package string }

func (e *NotInstalledError) Error() string {
	return fmt.Sprintf("%s is not installed (Debian: apt-get install %s)", e.Program, e.Package)
}

// A Server is a running peer.
type Server struct {
	*process.Process
	URL string // without a path
}

// Installed returns a [NotInstalledError] if the program of the peer is missing.
func (p Peer) Installed() error {
	if p.program == "" {
		return nil
	}
	if _, err := exec.LookPath(p.program); err != nil {
		return &NotInstalledError{p.program, p.debian}
	}
	return nil
}

var number = regexp.MustCompile(`\d+\.\d+(\.\d+)?`)

// Version returns the version of the program, or nothing if it is not known.
func (p Peer) Version(ctx context.Context) string {
	if len(p.version) == 0 {
		return ""
	}
	out, err := exec.CommandContext(ctx, p.version[0], p.version[1:]...).CombinedOutput()
	if err != nil {
		return ""
	}
	return number.FindString(string(out))
}

// Start starts the peer on a free address, with a new folder within one that exists, and returns
// when it answers a request for a path by a status. Stop the server when it is not needed any more.
func (p Peer) Start(ctx context.Context, at Place, path string, status int) (*Server, error) {
	if err := p.Installed(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(at.Dir, "server-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // Varnish compiles its configuration as another user
		return nil, err
	}
	at.Dir = dir
	if at.Address, err = process.FreeAddress(); err != nil {
		return nil, err
	}
	command, err := p.command(at)
	if err != nil {
		return nil, err
	}
	url := "http://" + at.Address
	server, err := process.Start(ctx, exec.CommandContext(ctx, command[0], command[1:]...), process.Answers(url+path, status))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	return &Server{server, url}, nil
}

// Ready starts the peer as [Peer.Start] does, until it answers 200.
func (p Peer) Ready(ctx context.Context, at Place, path string) (*Server, error) {
	return p.Start(ctx, at, path, http.StatusOK)
}

// Bare returns a server that is this program itself, started with the given arguments and its address.
func Bare(name string, args ...string) Peer {
	return Peer{Name: name, command: func(at Place) ([]string, error) {
		self, err := os.Executable()
		return append(append([]string{self}, args...), at.Address), err
	}}
}

// write writes the files of a server, with the names that stand for its place in capitals.
func (at Place) write(files map[string]string) error {
	for name, text := range files {
		file := filepath.Join(at.Dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(at.render(text)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (at Place) render(text string) string {
	host, port, _ := strings.Cut(at.Address, ":")
	originHost, originPort, _ := strings.Cut(at.Origin, ":")
	return strings.NewReplacer(
		"DIR", at.Dir, "ADDRESS", at.Address, "ORIGIN_HOST", originHost, "ORIGIN_PORT", originPort, "ORIGIN", at.Origin,
		"LISTEN_HOST", host, "LISTEN_PORT", port,
	).Replace(text)
}
