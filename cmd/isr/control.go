package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/facetheory/isr"
)

// inspector is what the commands ask: the stores themselves, or a server that
// has them open, through the socket in its data folder.
type inspector interface {
	get(ctx context.Context, k isr.Key) (report, error)
	list(ctx context.Context, show func(report) error) error
}

var (
	_ inspector = (*local)(nil)
	_ inspector = (*remote)(nil)
)

// inspect finds whom to ask; close ends the asking.
func (f *storeFlags) inspect(ctx context.Context) (who inspector, close func() error, err error) {
	if err := f.validate(); err != nil {
		return nil, nil, err
	}
	if f.Table == "" {
		if r := dialControl(ctx, f.Data); r != nil {
			return r, func() error { return nil }, nil
		}
	}
	st, err := f.open(ctx, false, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, err
	}
	return &local{meta: st.meta, bodies: st.bodies, partition: isr.HashedPartition, now: time.Now}, st.close, nil
}

// controlSocket is the socket's name in the data folder.
const controlSocket = "isr.sock"

// control serves the commands on the socket; nobody but the folder's owner can
// reach it.
type control struct {
	server *http.Server
}

func listenControl(f *folder, who inspector) (*control, error) {
	path, err := socketPath(f.path)
	if err != nil {
		return nil, err
	}
	// A socket that a crashed server left behind: nobody listens on it, since we
	// hold the folder.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("the socket for commands: %w", err)
	}
	// Nobody else may reach the socket, not even for the moment before a chmod.
	mask := syscall.Umask(0o177)
	listener, err := net.Listen("unix", path)
	syscall.Umask(mask)
	if err != nil {
		return nil, fmt.Errorf("the socket for commands: %w", err)
	}
	c := &control{server: &http.Server{Handler: controlHandler(who), ReadHeaderTimeout: 5 * time.Second}}
	go func() { _ = c.server.Serve(listener) }() // ends with close
	return c, nil
}

func (c *control) close() { _ = c.server.Close() }

// socketPath is the socket's path, short enough for the kernel: about 100 bytes
// on every system. A folder deep down is named from the working directory.
func socketPath(dir string) (string, error) {
	const longest = 100
	path := filepath.Join(dir, controlSocket)
	if len(path) <= longest {
		return path, nil
	}
	wd, err := os.Getwd()
	if err == nil {
		if rel, err := filepath.Rel(wd, path); err == nil && len(rel) <= longest {
			return rel, nil
		}
	}
	return "", fmt.Errorf("the path of the data folder %s is too long for a socket in it; give a shorter one with --data", dir)
}

func controlHandler(who inspector) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /page", func(w http.ResponseWriter, r *http.Request) {
		k, err := isr.ParseKey(r.FormValue("tenant"), r.FormValue("key"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		rep, err := who.get(r.Context(), k)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(rep)
	})
	// One report a line; the trailer says whether the list is whole.
	mux.HandleFunc("GET /pages", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", listError)
		out := json.NewEncoder(w)
		if err := who.list(r.Context(), func(rep report) error { return out.Encode(rep) }); err != nil {
			w.Header().Set(listError, url.QueryEscape(err.Error()))
		}
	})
	return mux
}

const listError = "Isr-Error"

// remote asks a running server.
type remote struct {
	client *http.Client
}

// dialControl returns nil if no server listens in the folder.
func dialControl(ctx context.Context, dir string) *remote {
	path, err := socketPath(dir)
	if err != nil {
		return nil
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil
	}
	_ = conn.Close() // it was only to see
	return &remote{client: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", path) },
	}}}
}

func (r *remote) get(ctx context.Context, k isr.Key) (rep report, err error) {
	query := url.Values{"key": {k.Text}, "tenant": {k.Tenant}}
	err = r.ask(ctx, "/page?"+query.Encode(), func(res *http.Response) error {
		return json.NewDecoder(res.Body).Decode(&rep)
	})
	return rep, err
}

func (r *remote) list(ctx context.Context, show func(report) error) error {
	return r.ask(ctx, "/pages", func(res *http.Response) error {
		in := json.NewDecoder(res.Body)
		for {
			var rep report
			switch err := in.Decode(&rep); {
			case errors.Is(err, io.EOF):
				if text, _ := url.QueryUnescape(res.Trailer.Get(listError)); text != "" {
					return errors.New(text)
				}
				return nil
			case err != nil:
				return err
			}
			if err := show(rep); err != nil {
				return err
			}
		}
	})
}

func (r *remote) ask(ctx context.Context, path string, read func(*http.Response) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://isr"+path, http.NoBody)
	if err != nil {
		return err
	}
	res, err := r.client.Do(req)
	if err != nil {
		return fmt.Errorf("asking the running server: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(res.Body, 4096))
		return errors.Join(fmt.Errorf("the running server says: %s", text), err)
	}
	return read(res)
}
