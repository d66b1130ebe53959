package server

import (
	"context"
	"os"
	"time"

	"github.com/facetheory/isr/internal/backoff"
)

// watchEvery is the interval at which the configuration file is looked at. Looking costs less than notifications of the
// kernel do in code, and works on every file system, and with files that are replaced by renaming, also of a folder above.
const watchEvery = time.Second

// A fileStamp is what a file is recognized by; zero if it does not exist.
type fileStamp struct{ info os.FileInfo }

func stampOf(path string) fileStamp {
	info, err := os.Stat(path)
	if err != nil {
		return fileStamp{}
	}
	return fileStamp{info}
}

// same reports whether the file has not changed in between.
func (s fileStamp) same(other fileStamp) bool {
	if s.info == nil || other.info == nil {
		return s.info == other.info
	}
	return os.SameFile(s.info, other.info) && s.info.Size() == other.info.Size() && s.info.ModTime().Equal(other.info.ModTime())
}

// watchFile reloads when the configuration file has changed since loaded, and then rested, until end is called. It does nothing
// without --watch.
func (c *ServeCommand) watchFile(ctx context.Context, r *reloader, loaded fileStamp) (end func()) {
	if !c.Watch {
		return nil
	}
	return inBackground(ctx, func(ctx context.Context) {
		last := loaded
		for backoff.Wait(ctx, watchEvery) == nil {
			now := stampOf(r.path)
			switch {
			case !now.same(last): // it may still be written
				last = now
			case now.info != nil && !now.same(loaded):
				loaded = now
				r.changed()
			}
		}
	})
}

// changed reloads because the file has changed.
func (r *reloader) changed() {
	defer supervisor{r.log}.reloading()()
	_, _ = r.reload(context.Background()) // logged
}
