package envelope

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

const (
	keyFileMode = 0o600
	maxKeyFile  = 1 << 20 // bytes; some 14,000 keys
)

// keyFileHeader is what a new file begins with.
const keyFileHeader = `# Master keys of encrypted attributes (package tabletheory/envelope).
# One a line: id and key (32 bytes in base64). The first one seals, all of them
# open. Without them what was encrypted is lost: keep a copy, and no key public.
`

// KeyFile is a provider for development, whose master keys are in a file. It is
// safe for concurrent use, by several processes too.
type KeyFile struct {
	path string

	mu   sync.Mutex
	keys []masterKey // guarded by mu; the newest first; replaced, never changed
}

var _ KeyProvider = (*KeyFile)(nil)

// OpenKeyFile reads the master keys in a file, which it makes, with one key, if
// there is none; its folder must exist. The file belongs to its owner alone, mode
// 0600. It is text: an id, a space and 32 bytes in base64 on each line, the
// newest first; empty lines and those that begin with # are passed over.
func OpenKeyFile(path string) (*KeyFile, error) {
	keys, err := loadKeyFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := createKeyFile(path); err != nil {
			return nil, fmt.Errorf("envelope: make the key file: %w", err)
		}
		keys, err = loadKeyFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("envelope: key file %s: %w", path, err)
	}
	return &KeyFile{path: path, keys: keys}, nil
}

// NewDataKey makes a random data key, and seals it with the newest master key.
func (f *KeyFile) NewDataKey(context.Context) (plain, sealed []byte, err error) {
	plain = make([]byte, keySize)
	rand.Read(plain)
	return plain, f.known()[0].seal(plain), nil
}

// OpenDataKey opens a data key with the master key that has sealed it. One that
// is not known is looked for in the file again: another process may have added
// it. Errors are ErrUnknownKey, ErrTampered, ErrMalformed, or the file's.
func (f *KeyFile) OpenDataKey(_ context.Context, sealed []byte) ([]byte, error) {
	header, id, rest, err := splitSealed(sealed)
	if err != nil {
		return nil, err
	}
	if key, ok := find(f.known(), id); ok {
		return key.open(header, rest)
	}
	keys, err := loadKeyFile(f.path)
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", f.path, err)
	}
	f.replace(keys)
	key, ok := find(keys, id)
	if !ok {
		return nil, fmt.Errorf("its data key: %w: it was sealed by the key %s, which is not in %s: add its line from a copy of the file", ErrUnknownKey, id, f.path)
	}
	return key.open(header, rest)
}

// Rotate adds a new master key to the file, which seals from now on; the others
// still open. What they have sealed is sealed anew as it is written again, and a
// key may be deleted from the file when nothing is left of it. Other processes
// seal with the new key when they open the file again, or have met what it has
// sealed.
func (f *KeyFile) Rotate() error {
	keys, err := rotateKeyFile(f.path)
	if err != nil {
		return fmt.Errorf("envelope: add a key to %s: %w", f.path, err)
	}
	f.replace(keys)
	return nil
}

func (f *KeyFile) known() []masterKey {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.keys
}

func (f *KeyFile) replace(keys []masterKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keys = keys
}

func find(keys []masterKey, id string) (masterKey, bool) {
	i := slices.IndexFunc(keys, func(k masterKey) bool { return k.id == id })
	if i < 0 {
		return masterKey{}, false
	}
	return keys[i], true
}

func loadKeyFile(path string) ([]masterKey, error) {
	text, err := readKeyFile(path)
	if err != nil {
		return nil, err
	}
	defer clear(text)
	return parseMasterKeys(text)
}

// readKeyFile reads a file that is of the right kind.
func readKeyFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("it is no file, but %s: give the path of a file", info.Mode().Type())
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("its mode is %#o, so that others can get at the keys: chmod 600 %s", mode, path)
	}
	if info.Size() > maxKeyFile {
		return nil, fmt.Errorf("it has %d bytes: a key file has at most %d", info.Size(), maxKeyFile)
	}
	return io.ReadAll(io.LimitReader(file, maxKeyFile))
}

// createKeyFile makes a file with one key. If another process is faster, the
// file is that one's.
func createKeyFile(path string) error {
	temp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	if err := finish(temp, keyFileHeader+newMasterLine()); err != nil {
		return err
	}
	// The file appears whole or not at all; a link, unlike a rename, does not
	// replace the keys of another process.
	if err := os.Link(temp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncFolder(path)
}

// rotateKeyFile adds a key before the others. The new file is its own lock: it
// can be made by one process at a time, which reads the old one only then, and
// ceases to be by replacing it. So no key is ever lost.
func rotateKeyFile(path string) ([]masterKey, error) {
	path, err := filepath.EvalSymlinks(path) // or the link would be replaced
	if err != nil {
		return nil, err
	}
	next, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_EXCL, keyFileMode)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("another process is about to, or was interrupted: try again; if %s.new stays, delete it: %w", path, err)
	}
	if err != nil {
		return nil, err
	}
	text, err := writeNext(path, next)
	if err == nil {
		err = os.Rename(next.Name(), path)
	}
	if err != nil {
		os.Remove(next.Name())
		return nil, err
	}
	// Nothing may be sealed with a key that a crash could still undo. From the
	// rename on a file of next's name is another process's.
	if err := syncFolder(path); err != nil {
		return nil, err
	}
	return parseMasterKeys([]byte(text))
}

// writeNext writes what is in the file, if it can be read, and a new key to
// next, closes that, and returns what it wrote.
func writeNext(path string, next *os.File) (string, error) {
	old, err := readKeyFile(path)
	if err == nil {
		_, err = parseMasterKeys(old)
	}
	if err != nil {
		return "", errors.Join(err, next.Close())
	}
	text := prepend(newMasterLine(), string(old))
	return text, finish(next, text)
}

// prepend puts a line before the first one that is no comment.
func prepend(line, text string) string {
	var head strings.Builder
	for rest := range strings.Lines(text) {
		if !isComment(rest) {
			break
		}
		head.WriteString(rest)
	}
	return head.String() + line + text[head.Len():]
}

// finish writes a file, and closes it when it is on the disk.
func finish(file *os.File, text string) error {
	_, err := file.WriteString(text)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// syncFolder brings the entry of a file in its folder to the disk.
func syncFolder(path string) error {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
