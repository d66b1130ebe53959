package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/admin"
)

type topCommand struct {
	Once     bool     `env:"-" help:"Print one frame as text, and end."`
	JSON     bool     `name:"json" help:"Write a line of JSON at each interval; one with --once."`
	Interval cli.Span `env:"-" default:"1s" placeholder:"TIME" help:"Time between two frames, between 200ms and 1h (${default})."`

	askFlags `embed:""`
}

func (c *topCommand) Help() string {
	return `Shows the hit ratio, requests, renders, slow and failing pages, leases and purges of a running server, of the last
minute and the last hour. q quits. NO_COLOR disables colors.`
}

// minInterval and maxInterval bound --interval.
const (
	minInterval = 200 * time.Millisecond
	maxInterval = time.Hour
)

func (c *topCommand) Run(ctx context.Context, s *cli.Streams) error {
	if every := time.Duration(c.Interval); every < minInterval || every > maxInterval {
		return cli.Usagef("--interval must be between 200ms and 1h (got %s)", every)
	}
	return c.ask(ctx, func(client *admin.Client) error {
		show := func() (topFrame, error) { return observeServer(ctx, client) }
		switch out, in := terminal(s.Out), terminal(s.In); {
		case c.JSON:
			return c.lines(ctx, s.Out, show)
		case c.Once || out == nil || in == nil:
			f, err := show()
			if err != nil {
				return err
			}
			_, err = io.WriteString(s.Out, f.text(plainWidth, 0, false))
			return err
		default:
			return c.watch(ctx, &screen{out: out, in: in, color: os.Getenv("NO_COLOR") == ""}, show)
		}
	})
}

// terminal returns the file of a stream if it is a terminal, else nil.
func terminal(stream any) *os.File {
	file, ok := stream.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return file
}

// observeServer asks a server for all of a frame.
func observeServer(ctx context.Context, client *admin.Client) (f topFrame, err error) {
	if f.Overview, err = client.Overview(ctx); err != nil {
		return f, err
	}
	origins, err := client.Origins(ctx)
	f.Origins = origins.Origins
	return f, err
}

// lines writes frames as lines of JSON.
func (c *topCommand) lines(ctx context.Context, to io.Writer, show func() (topFrame, error)) error {
	out := json.NewEncoder(to)
	for {
		f, err := show()
		if err == nil {
			err = out.Encode(f)
		}
		if err != nil || c.Once {
			return err
		}
		select {
		case <-time.After(time.Duration(c.Interval)):
		case <-ctx.Done():
			return nil
		}
	}
}

// A screen is a terminal in full-screen mode.
type screen struct {
	out, in *os.File
	color   bool
	before  *term.State // of the terminal
}

// Control sequences of ECMA-48, and of xterm for the alternate screen.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	cursorHome  = "\x1b[H"
	eraseLine   = "\x1b[K"
	eraseBelow  = "\x1b[J"
	bold        = "\x1b[1m"
	red         = "\x1b[31m"
	plainText   = "\x1b[0m"
)

// enter makes the terminal a screen. The caller must call leave, whatever happens.
func (t *screen) enter() (err error) {
	if t.before, err = term.MakeRaw(int(t.in.Fd())); err != nil {
		return fmt.Errorf("prepare the terminal: %w; use --once", err)
	}
	_, err = t.out.WriteString(enterScreen)
	return err
}

// leave restores the terminal.
func (t *screen) leave() {
	_, _ = t.out.WriteString(leaveScreen)
	_ = term.Restore(int(t.in.Fd()), t.before)
}

// draw shows a frame in the present size of the terminal.
func (t *screen) draw(f topFrame) error {
	width, height, err := term.GetSize(int(t.out.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		width, height = 80, 24
	}
	text := strings.TrimSuffix(f.text(width, height, t.color), "\n")
	_, err = t.out.WriteString(cursorHome + strings.ReplaceAll(text, "\n", eraseLine+"\r\n") + eraseLine + eraseBelow)
	return err
}

// keys sends the keys that are pressed. It ends with the process: a read cannot be interrupted.
func (t *screen) keys() <-chan byte {
	keys := make(chan byte)
	go func() {
		one := make([]byte, 1)
		for {
			if n, err := t.in.Read(one); err != nil || n == 0 {
				close(keys)
				return
			}
			keys <- one[0]
		}
	}()
	return keys
}

// watch draws frames until q is pressed or ctx is done. A server that does not answer any more is
// waited for.
func (c *topCommand) watch(ctx context.Context, t *screen, show func() (topFrame, error)) error {
	f, err := show()
	if err != nil {
		return err // before the screen is cleared
	}
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	tick := time.NewTicker(time.Duration(c.Interval))
	defer tick.Stop()
	for keys := t.keys(); ; {
		if err := t.draw(f); err != nil {
			return err
		}
		select {
		case <-tick.C:
			if next, err := show(); err == nil {
				f = next
			} else {
				f.problem = err.Error()
			}
		case <-resized:
		case key, open := <-keys:
			switch key {
			case 'q', 'Q', 3, 4: // also ^C and ^D, which are bytes in raw mode
				return nil
			}
			if !open {
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}
