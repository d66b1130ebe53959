//go:build !linux

package dirbody

import "os"

// lstatIn describes a file of an open folder; name is its path below the root, as in the other
// methods.
func (s *Store) lstatIn(_ *os.File, name string) (fileInfo, error) {
	info, err := s.root.Lstat(name)
	if err != nil {
		return fileInfo{}, err
	}
	return fileInfo{regular: info.Mode().IsRegular(), length: info.Size(), modified: info.ModTime()}, nil
}
