package crashfs

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/facetheory/isr/internal/localfile"
)

// An FS is the file system of a [Disk] as one process has it. See [localfile.FS].
type FS struct {
	disk  *Disk
	epoch int
	ended bool // guarded by the disk's mu
}

// Kill ends the process. What it has written stays.
func (f *FS) Kill() {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.ended = true
	walk(f.disk.root, func(n *node) {
		maps.DeleteFunc(n.locks, func(o *file, _ bool) bool { return o.fs == f })
	})
}

// do makes a call. One that changes something counts, and may crash.
func (f *FS) do(op, name string, changes bool, call func() error) error {
	d := f.disk
	if d.Before != nil {
		d.Before(op, name)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.usable(f.epoch); f.ended || err != nil {
		return &fs.PathError{Op: op, Path: name, Err: ErrCrashed}
	}
	if changes {
		d.calls++
		d.trace = append(d.trace, describe(op, name))
	}
	err := call()
	if changes && d.calls == d.crashAt {
		err = ErrCrashed
	}
	if err != nil && err != io.EOF { //nolint:errorlint // io.Reader returns it as it is
		err = &fs.PathError{Op: op, Path: name, Err: err}
	}
	return err
}

// usable fails after a crash, and for descriptors of processes that have ended.
func (d *Disk) usable(epoch int) error {
	if epoch != d.epoch || d.crashAt > 0 && d.calls >= d.crashAt {
		return ErrCrashed
	}
	return nil
}

// isCrashing reports whether the call in progress crashes, so that it has a part of its effect.
func (d *Disk) isCrashing() bool { return d.crashAt > 0 && d.calls == d.crashAt }

// OpenFile implements [localfile.FS].
func (f *FS) OpenFile(name string, flag int, _ fs.FileMode) (opened localfile.File, err error) {
	creates := flag&os.O_CREATE != 0
	err = f.do("open", name, creates, func() error {
		n, err := f.disk.find(name)
		switch {
		case err == nil && creates && flag&os.O_EXCL != 0:
			return syscall.EEXIST
		case errors.Is(err, syscall.ENOENT) && creates:
			in, base, err := f.disk.folderOf(name)
			if err != nil {
				return err
			}
			n = &node{modified: time.Now(), dirty: make(map[int]bool)}
			f.disk.apply(part{in, base, n})
		case err != nil:
			return err
		case n.folder && flag&(os.O_WRONLY|os.O_RDWR) != 0:
			return syscall.EISDIR
		}
		opened = f.open(n, name, flag)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return opened, nil
}

func (f *FS) open(n *node, name string, flag int) *file {
	return &file{fs: f, node: n, name: name, appends: flag&os.O_APPEND != 0, failures: n.failure.sample(), allFailures: f.disk.failure.sample()}
}

// Mkdir implements [localfile.FS].
func (f *FS) Mkdir(name string, _ fs.FileMode) error {
	return f.do("mkdir", name, true, func() error { return f.mkdir(name) })
}

func (f *FS) mkdir(name string) error {
	if _, err := f.disk.find(name); err == nil {
		return syscall.EEXIST
	}
	in, base, err := f.disk.folderOf(name)
	if err != nil {
		return err
	}
	f.disk.apply(part{in, base, newFolder()})
	return nil
}

// MkdirAll implements [localfile.FS]. Each folder is a call.
func (f *FS) MkdirAll(name string, perm fs.FileMode) error {
	if name == "." {
		return nil
	}
	if err := f.MkdirAll(path.Dir(name), perm); errors.Is(err, fs.ErrExist) {
		return &fs.PathError{Op: "mkdir", Path: name, Err: syscall.ENOTDIR}
	} else if err != nil {
		return err
	}
	err := f.Mkdir(name, perm)
	if errors.Is(err, fs.ErrExist) {
		if info, statErr := f.Lstat(name); statErr == nil && info.IsDir() {
			return nil
		}
	}
	return err
}

// Link implements [localfile.FS].
func (f *FS) Link(from, to string) error {
	return f.do("link", to, true, func() error {
		for _, name := range []string{from, to} {
			if _, _, err := f.disk.folderOf(name); err != nil {
				return err
			}
		}
		n, err := f.disk.find(from)
		if err != nil {
			return err
		}
		return f.link(n, to)
	})
}

func (f *FS) link(n *node, to string) error {
	in, base, err := f.disk.folderOf(to)
	if err != nil {
		return err
	}
	if in.entries[base] != nil {
		return syscall.EEXIST
	}
	f.disk.apply(part{in, base, n})
	return nil
}

// Rename implements [localfile.FS].
func (f *FS) Rename(from, to string) error {
	return f.do("rename", to, true, func() error {
		source, sourceBase, err := f.disk.folderOf(from)
		if err != nil {
			return err
		}
		target, base, err := f.disk.folderOf(to)
		if err != nil {
			return err
		}
		n, err := f.disk.find(from)
		if err != nil {
			return err
		}
		if old := target.entries[base]; old != nil && old.folder {
			return syscall.EEXIST
		}
		if target.entries[base] == n {
			return nil // rename(2) of two names of one file does nothing
		}
		f.disk.apply(part{source, sourceBase, nil}, part{target, base, n})
		return nil
	})
}

// Remove implements [localfile.FS].
func (f *FS) Remove(name string) error {
	return f.do("remove", name, true, func() error {
		n, err := f.disk.find(name)
		if err == nil && len(n.entries) > 0 {
			err = syscall.ENOTEMPTY
		}
		if err != nil {
			return err
		}
		in, base, err := f.disk.folderOf(name)
		if err == nil {
			f.disk.apply(part{in, base, nil})
		}
		return err
	})
}

// RemoveAll implements [localfile.FS]. Each name is a call.
func (f *FS) RemoveAll(name string) error {
	entries, err := f.ReadDir(name)
	if err != nil && !errors.Is(err, syscall.ENOTDIR) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, entry := range entries {
		if err := f.RemoveAll(path.Join(name, entry.Name())); err != nil {
			return err
		}
	}
	if err := f.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Lstat implements [localfile.FS].
func (f *FS) Lstat(name string) (info fs.FileInfo, err error) {
	err = f.do("lstat", name, false, func() error {
		n, err := f.disk.find(name)
		if err == nil {
			info = infoOf(n, name)
		}
		return err
	})
	return info, err
}

// Chtimes implements [localfile.FS].
func (f *FS) Chtimes(name string, modified time.Time) error {
	return f.do("chtimes", name, true, func() error {
		n, err := f.disk.find(name)
		if err == nil {
			n.modified = modified
		}
		return err
	})
}

// ReadDir implements [localfile.FS].
func (f *FS) ReadDir(name string) (entries []fs.DirEntry, err error) {
	err = f.do("readdir", name, false, func() error {
		n, err := f.disk.find(name)
		if err == nil && !n.folder {
			err = syscall.ENOTDIR
		}
		if err != nil {
			return err
		}
		for _, base := range sortedNames(n.entries) {
			entries = append(entries, fs.FileInfoToDirEntry(infoOf(n.entries[base], base)))
		}
		return nil
	})
	return entries, err
}

// LstatIn implements [localfile.FS].
func (f *FS) LstatIn(_ localfile.File, name string) (localfile.FileInfo, error) {
	info, err := f.Lstat(name)
	if err != nil {
		return localfile.FileInfo{}, err
	}
	return localfile.FileInfo{Regular: info.Mode().IsRegular(), Length: info.Size(), Modified: info.ModTime()}, nil
}

// Lock implements [localfile.FS]. It does not wait.
func (f *FS) Lock(opened localfile.File, shared, _ bool) error {
	o := asFile(opened)
	return f.do("lock", o.name, false, func() error {
		for other, otherShared := range o.node.locks {
			if other != o && !(shared && otherShared) {
				return localfile.ErrLocked
			}
		}
		if o.node.locks == nil {
			o.node.locks = make(map[*file]bool)
		}
		o.node.locks[o] = shared
		return nil
	})
}

// DataSync implements [localfile.FS].
func (f *FS) DataSync(opened localfile.File) error { return opened.Sync() }

// SyncFileSystem implements [localfile.FS].
func (f *FS) SyncFileSystem(opened localfile.File) (ok bool, err error) {
	o := asFile(opened)
	return true, f.do("syncfs", o.name, true, func() error {
		d := f.disk
		fails := d.beginSync(o.name)
		switch {
		case d.isCrashing():
			return nil
		case fails:
			walk(d.root, func(n *node) {
				if len(n.dirty) > 0 {
					d.fail(n)
				}
			})
			d.failure.note() // also if nothing was to be written
		default:
			d.syncAll()
		}
		return d.failure.since(&o.allFailures)
	})
}

// Create implements [localfile.FS].
func (f *FS) Create(name string, content []byte, _ fs.FileMode) error {
	if f.disk.NoUnnamed {
		return localfile.ErrUnsupported
	}
	return f.do("create", name, true, func() error {
		n := &node{modified: time.Now(), dirty: make(map[int]bool)}
		n.write(content, 0)
		return f.link(n, name)
	})
}

// Read implements [localfile.FS].
func (f *FS) Read(name string, limit int64) (content []byte, modified time.Time, err error) {
	err = f.do("read", name, false, func() error {
		n, err := f.disk.find(name)
		switch {
		case err != nil:
			return err
		case n.folder:
			return syscall.EISDIR
		case int64(len(n.content)) > limit:
			return syscall.EFBIG
		}
		content, modified = slices.Clone(n.content), n.modified
		return nil
	})
	return content, modified, err
}

// ReadCached implements [localfile.FS].
func (f *FS) ReadCached(name string, buffer []byte) (content []byte, modified time.Time, err error) {
	all, modified, err := f.Read(name, int64(len(buffer)))
	return buffer[:copy(buffer, all)], modified, err
}

// IsMissing implements [localfile.FS].
func (f *FS) IsMissing(name string) bool {
	_, err := f.Lstat(name)
	return errors.Is(err, fs.ErrNotExist)
}

// Close implements [localfile.FS].
func (f *FS) Close() error { return nil }

// A file is an open file or folder.
type file struct {
	fs                    *FS
	node                  *node
	name                  string
	appends               bool
	at                    int // guarded by the disk's mu, as the others below
	listed                int
	failures, allFailures int
}

func asFile(f localfile.File) *file { return f.(*file) } //nolint:forcetypeassert // all are

func (o *file) Read(p []byte) (n int, err error) {
	err = o.fs.do("read", o.name, false, func() error {
		n, err = o.readAt(p, int64(o.at))
		o.at += n
		if n > 0 {
			err = nil
		}
		return err
	})
	return n, err
}

func (o *file) ReadAt(p []byte, at int64) (n int, err error) {
	err = o.fs.do("read", o.name, false, func() error {
		n, err = o.readAt(p, at)
		return err
	})
	return n, err
}

func (o *file) readAt(p []byte, at int64) (int, error) {
	if o.node.folder {
		return 0, syscall.EISDIR
	}
	if at >= int64(len(o.node.content)) {
		return 0, io.EOF
	}
	n := copy(p, o.node.content[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (o *file) Write(p []byte) (n int, err error) {
	err = o.fs.do("write", o.name, true, func() error {
		at := o.at
		if o.appends {
			at = len(o.node.content)
		}
		n = o.write(p, at)
		o.at = at + n
		return nil
	})
	return n, err
}

func (o *file) WriteAt(p []byte, at int64) (n int, err error) {
	err = o.fs.do("write", o.name, true, func() error {
		n = o.write(p, int(at))
		return nil
	})
	return n, err
}

// write writes all, or a part if the call crashes.
func (o *file) write(p []byte, at int) int {
	d := o.fs.disk
	if d.isCrashing() {
		p = p[:d.random.IntN(len(p)+1)]
	}
	o.node.write(p, at)
	return len(p)
}

func (n *node) write(p []byte, at int) {
	if len(p) == 0 {
		return
	}
	if end := at + len(p); end > len(n.content) {
		n.content = append(n.content, make([]byte, end-len(n.content))...)
	}
	copy(n.content[at:], p)
	for sector := at / Sector; sector*Sector < at+len(p); sector++ {
		n.dirty[sector] = true
	}
	n.modified = time.Now()
}

func (o *file) Stat() (info fs.FileInfo, err error) {
	err = o.fs.do("stat", o.name, false, func() error {
		info = infoOf(o.node, o.name)
		return nil
	})
	return info, err
}

func (o *file) Readdirnames(n int) (names []string, err error) {
	err = o.fs.do("readdir", o.name, false, func() error {
		all := sortedNames(o.node.entries)
		names = all[min(o.listed, len(all)):min(o.listed+n, len(all))]
		o.listed += len(names)
		if len(names) == 0 {
			return io.EOF
		}
		return nil
	})
	return names, err
}

func (o *file) Sync() error {
	return o.fs.do("sync", o.name, true, func() error {
		d := o.fs.disk
		fails := d.beginSync(o.name)
		switch {
		case d.isCrashing():
			return nil
		case fails && o.node.folder:
			return syscall.EIO
		case fails:
			d.fail(o.node)
		case o.node.folder:
			d.syncFolder(o.node)
			return nil
		default:
			o.node.writeAll()
		}
		return o.node.failure.since(&o.failures)
	})
}

func (o *file) Close() error {
	d := o.fs.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(o.node.locks, o)
	return nil
}

// An info describes a node at one moment.
type info struct {
	name     string
	folder   bool
	length   int64
	modified time.Time
}

func infoOf(n *node, name string) fs.FileInfo {
	return info{name: name[strings.LastIndexByte(name, '/')+1:], folder: n.folder, length: int64(len(n.content)), modified: n.modified}
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.length }
func (i info) ModTime() time.Time { return i.modified }
func (i info) IsDir() bool        { return i.folder }
func (i info) Sys() any           { return nil }
func (i info) Mode() fs.FileMode {
	if i.folder {
		return fs.ModeDir | 0o700
	}
	return 0o600
}
