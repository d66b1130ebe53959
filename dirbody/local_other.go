//go:build !linux

package dirbody

import "time"

// readFile reads a file of at most limit bytes, and returns when it was last modified.
func (s *Store) readFile(name string, limit int64) (body []byte, modified time.Time, err error) {
	return s.readSlow(name, limit)
}
