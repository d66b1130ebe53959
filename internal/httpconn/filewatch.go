package httpconn

import (
	"os"
	"sync"
	"time"
)

// A fileWatch finds out whether files have changed, without a goroutine: whoever uses what was read from them asks.
type fileWatch struct {
	paths []string

	mu      sync.Mutex    // taken with TryLock only, so that no handshake waits
	checked time.Time     // guarded by mu: when the files were looked at last
	stamps  []os.FileInfo // guarded by mu: of the files that were read last, successfully or not
}

// watchInterval is how often the files are looked at, at most.
const watchInterval = time.Second

// begin notes the state of the files, before they are read for the first time.
func (w *fileWatch) begin() { w.checked, w.stamps = time.Now(), w.stat() }

// changed calls read if one of the files has changed since the last call, unless another goroutine is looking.
func (w *fileWatch) changed(read func()) {
	if !w.mu.TryLock() {
		return
	}
	defer w.mu.Unlock()
	if time.Since(w.checked) < watchInterval {
		return
	}
	w.checked = time.Now()
	// The stamps come first: what changes after them is read the next time.
	stamps := w.stat()
	if sameStamps(w.stamps, stamps) {
		return
	}
	w.stamps = stamps
	read()
}

// stat returns the state of the files, by which a change is seen; nil for a file that does not exist.
func (w *fileWatch) stat() []os.FileInfo {
	stamps := make([]os.FileInfo, len(w.paths))
	for i, path := range w.paths {
		if info, err := os.Stat(path); err == nil {
			stamps[i] = info
		}
	}
	return stamps
}

func sameStamps(a, b []os.FileInfo) bool {
	for i := range a {
		switch {
		case a[i] == nil || b[i] == nil:
			if a[i] != b[i] {
				return false
			}
		case !os.SameFile(a[i], b[i]) || !a[i].ModTime().Equal(b[i].ModTime()) || a[i].Size() != b[i].Size():
			return false
		}
	}
	return true
}
