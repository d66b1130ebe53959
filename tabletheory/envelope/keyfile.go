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
	maxKeyFile  = 1 << 20 // bytes; about 14,000 keys
)

// keyFileHeader is the comment at the top of a new file.
const keyFileHeader = `# Master keys of encrypted attributes (package tabletheory/envelope).
# Each line: id and key (32 bytes in base64). The first key seals, all keys open.
# Without the keys, encrypted data is lost. Back up this file and keep it secret.
`

// KeyFile is a provider for development that stores its master keys in a file. It is safe
// for concurrent use, also by several processes.
type KeyFile struct {
	path string

	mu   sync.Mutex
	keys []masterKey // guarded by mu; newest first; the slice is replaced, never modified
}

var _ KeyProvider = (*KeyFile)(nil)

// OpenKeyFile reads the master keys from a file. If the file does not exist, it is
// created with one key; its folder must exist. The file must have mode 0600. It is text:
// each line has an id, a space and 32 bytes in base64, newest key first. Empty lines and
// lines that begin with # are ignored.
func OpenKeyFile(path string) (*KeyFile, error) {
	keys, err := loadKeyFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := createKeyFile(path); err != nil {
			return nil, fmt.Errorf("envelope: create key file: %w", err)
		}
		keys, err = loadKeyFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("envelope: key file %s: %w", path, err)
	}
	return &KeyFile{path: path, keys: keys}, nil
}

// NewDataKey generates a random data key and seals it with the newest master key.
func (f *KeyFile) NewDataKey(context.Context) (plain, sealed []byte, err error) {
	plain = make([]byte, dataKeySize)
	rand.Read(plain)
	return plain, f.masterKeys()[0].seal(plain), nil
}

// OpenDataKey opens a data key with the master key that sealed it. If that key is not in
// memory, OpenDataKey reads the file again, because another process may have added it.
// Errors are ErrUnknownKey, ErrTampered, ErrMalformed, or errors of reading the file.
func (f *KeyFile) OpenDataKey(_ context.Context, sealed []byte) ([]byte, error) {
	header, id, rest, err := splitSealed(sealed)
	if err != nil {
		return nil, err
	}
	if key, ok := findKey(f.masterKeys(), id); ok {
		return key.open(header, rest)
	}
	keys, err := loadKeyFile(f.path)
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", f.path, err)
	}
	f.replace(keys)
	key, ok := findKey(keys, id)
	if !ok {
		return nil, fmt.Errorf("data key: %w: sealed by key %s, which is not in %s: restore its line from a backup of the file", ErrUnknownKey, id, f.path)
	}
	return key.open(header, rest)
}

// Rotate adds a new master key to the file. From then on the new key seals, and all keys
// open. Attributes are sealed with the new key when they are written again; an old key
// may be deleted from the file once no attribute uses it. Other processes seal with the
// new key after they reopen the file or open an attribute that it sealed.
func (f *KeyFile) Rotate() error {
	keys, err := rotateKeyFile(f.path)
	if err != nil {
		return fmt.Errorf("envelope: rotate key file %s: %w", f.path, err)
	}
	f.replace(keys)
	return nil
}

func (f *KeyFile) masterKeys() []masterKey {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.keys
}

func (f *KeyFile) replace(keys []masterKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keys = keys
}

func findKey(keys []masterKey, id string) (masterKey, bool) {
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

// readKeyFile checks the type, mode and size of a file and reads it.
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
		return nil, fmt.Errorf("not a regular file but %s: give the path of a file", info.Mode().Type())
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("mode %#o gives other users access to the keys: chmod 600 %s", mode, path)
	}
	if info.Size() > maxKeyFile {
		return nil, fmt.Errorf("file has %d bytes: expected at most %d", info.Size(), maxKeyFile)
	}
	return io.ReadAll(io.LimitReader(file, maxKeyFile))
}

// createKeyFile creates a file with one key, unless another process creates it first.
func createKeyFile(path string) error {
	temp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	if err := writeAndSync(temp, keyFileHeader+newMasterLine()); err != nil {
		return err
	}
	// The file appears atomically. A link, unlike a rename, does not replace the keys
	// of another process.
	if err := os.Link(temp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncFolder(path)
}

// rotateKeyFile adds a key in front of the others. The new file doubles as a lock: only
// one process can create it, reads the old file while holding it, and releases it by
// renaming it over the old file. So no key is lost.
func rotateKeyFile(path string) ([]masterKey, error) {
	path, err := filepath.EvalSymlinks(path) // otherwise the rename replaces the link
	if err != nil {
		return nil, err
	}
	next, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_EXCL, keyFileMode)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("another process is rotating the file or was interrupted: try again; if %s.new remains, delete it: %w", path, err)
	}
	if err != nil {
		return nil, err
	}
	text, err := writeRotated(path, next)
	if err == nil {
		err = os.Rename(next.Name(), path)
	}
	if err != nil {
		os.Remove(next.Name())
		return nil, err
	}
	// Sync before the new key seals anything: a crash must not undo the rename. After
	// the rename a file at next's path belongs to another process.
	if err := syncFolder(path); err != nil {
		return nil, err
	}
	return parseMasterKeys([]byte(text))
}

// writeRotated writes the contents of the file and a new key to next, closes next, and
// returns the text.
func writeRotated(path string, next *os.File) (string, error) {
	old, err := readKeyFile(path)
	if err == nil {
		_, err = parseMasterKeys(old)
	}
	if err != nil {
		return "", errors.Join(err, next.Close())
	}
	text := insertLine(newMasterLine(), string(old))
	return text, writeAndSync(next, text)
}

// insertLine inserts a line before the first one that is not a comment.
func insertLine(line, text string) string {
	var head strings.Builder
	for rest := range strings.Lines(text) {
		if !isComment(rest) {
			break
		}
		head.WriteString(rest)
	}
	return head.String() + line + text[head.Len():]
}

// writeAndSync writes, syncs and closes a file.
func writeAndSync(file *os.File, text string) error {
	_, err := file.WriteString(text)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// syncFolder syncs the folder of a file, and with it the file's directory entry.
func syncFolder(path string) error {
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
