package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/backup"
)

// progressEvery is the interval between changes of a progress bar, and progressWidth its width.
const (
	progressEvery = 200 * time.Millisecond
	progressWidth = 24
)

// progressBar shows on a terminal how far a command is, in what format returns of a number; nothing elsewhere. end
// removes it.
func progressBar(s *cli.Streams, verb string, format func(int64) string) (show backup.Progress, end func()) {
	if !cli.IsTerminal(s.Err) {
		return nil, func() {}
	}
	began, said := time.Now(), time.Time{}
	show = func(done, total int64) {
		now := time.Now()
		if now.Sub(said) < progressEvery {
			return
		}
		said = now
		text := format(done)
		if total > 0 {
			share := min(float64(done)/float64(total), 1)
			full := int(share * progressWidth)
			text = fmt.Sprintf("[%s%s] %3.0f%%  %s of %s", strings.Repeat("#", full), strings.Repeat(".", progressWidth-full), 100*share, text, format(total))
			if share > 0.01 {
				left := time.Duration(float64(now.Sub(began)) * (1 - share) / share)
				text += ", " + cli.SpanText(left.Round(time.Second)) + " left"
			}
		}
		fmt.Fprintf(s.Err, "\r\x1b[K%s  %s", verb, text)
	}
	return show, func() { fmt.Fprint(s.Err, "\r\x1b[K") }
}

// numberText formats a number of rows or pages for a progress bar.
func numberText(n int64) string { return fmt.Sprint(n) }
