// Package crashfs is a file system for tests, in memory, that loses what POSIX lets a file system lose.
//
// It keeps apart what the system has in memory and what is on disk. Sync of a file makes its content durable and not
// its name, which Sync of its folder does. At a power failure, what is not durable is lost, kept, or lost in part:
// single changes of folders, and single sectors of files.
//
// A sync can fail, as on Linux: what it was to write stays in memory, is never written unless it changes again, and
// the next sync of it succeeds. Failures of the writing that the system does by itself are reported as by errseq_t:
// once to each descriptor that was open, and to later ones unless another has reported it.
//
//	test ──► Disk.Open ──► FS ──► the package under test
//	  └────► Disk.CrashAt(n) … Disk.PowerFailure(seed) or Disk.Kill() ──► Disk.Open
package crashfs

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/facetheory/isr/internal/localfile"
)

// Sector is what a disk writes as a whole, in bytes.
const Sector = 512

// ErrCrashed is the error of all calls after a crash, until the disk is opened again.
var ErrCrashed = errors.New("crashfs: the machine has crashed")

// A Disk is a disk with one file system. It is safe for concurrent use.
type Disk struct {
	// Before is called before each call of an FS, without a lock, so that it may wait. Nil: nothing is called.
	// It must be set before Open.
	Before func(op, name string)
	// FailSyncs reports whether the syncs of a name fail, each time. Nil: none does. It must be set before Open.
	FailSyncs func(name string) bool
	// NoUnnamed: the file system has no files without a name (O_TMPFILE).
	NoUnnamed bool

	mu      sync.Mutex
	root    *node
	pending []*change // of folders, not on disk, in order
	calls   int       // that change something, since New
	crashAt int       // the call that crashes; 0: none
	random  *rand.Rand
	epoch   int // of descriptors: a crash or Kill ends it
	syncs   int // that have begun
	failing map[int]bool
	trace   []string
	failure report // of any file: reported by SyncFileSystem
}

// A node is a file or folder, in memory and on disk.
type node struct {
	folder   bool
	entries  map[string]*node // of a folder
	content  []byte           // of a file
	modified time.Time
	dirty    map[int]bool // sectors that the next sync writes
	disk     struct {
		entries  map[string]*node
		content  []byte
		modified time.Time
	}
	failure report
	locks   map[*file]bool // value: shared
}

// A report counts failures of writing, as errseq_t.
type report struct {
	failures int
	seen     bool // the last one was reported
}

func (r *report) note() { r.failures, r.seen = r.failures+1, false }

// sample returns the count of failures from which a new descriptor starts.
func (r *report) sample() int {
	if r.failures > 0 && !r.seen {
		return r.failures - 1
	}
	return r.failures
}

// since reports whether there was a failure since a sample, and advances it.
func (r *report) since(sample *int) error {
	if *sample == r.failures {
		return nil
	}
	*sample, r.seen = r.failures, true
	return syscall.EIO
}

// A change is a change of one or two names, which happens as a whole or not.
type change struct {
	parts []part
}

type part struct {
	in   *node
	name string
	to   *node // nil: removed
}

// New returns an empty disk.
func New() *Disk {
	root := newFolder()
	return &Disk{root: root, random: rand.New(rand.NewPCG(1, 2)), failing: make(map[int]bool)}
}

func newFolder() *node {
	n := &node{folder: true, entries: make(map[string]*node), modified: time.Now(), dirty: make(map[int]bool)}
	n.disk.entries = make(map[string]*node)
	return n
}

// Open opens the file system as a process does.
func (d *Disk) Open() *FS {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &FS{disk: d, epoch: d.epoch}
}

// CrashAt makes the nth call from now on crash, of those that change something. The call has its effect in memory, or
// a part of it. All later ones fail. Zero: no call crashes.
func (d *Disk) CrashAt(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.crashAt = 0
	if n > 0 {
		d.crashAt = d.calls + n
	}
}

// Crashed reports whether a call has crashed, and no Kill or PowerFailure has followed.
func (d *Disk) Crashed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.usable(d.epoch) != nil
}

// Calls returns how many calls have changed something.
func (d *Disk) Calls() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls
}

// Trace returns the calls that have changed something, in order.
func (d *Disk) Trace() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.trace)
}

// FailSync makes the nth sync from now on fail once, of files, folders and the file system.
func (d *Disk) FailSync(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failing[d.syncs+n] = true
}

// Syncs returns how many syncs have begun.
func (d *Disk) Syncs() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.syncs
}

// FailWriteback is what happens if the system writes all changed files by itself, and the disk fails.
func (d *Disk) FailWriteback() {
	d.mu.Lock()
	defer d.mu.Unlock()
	walk(d.root, func(n *node) {
		if len(n.dirty) > 0 {
			d.fail(n)
		}
	})
}

// SyncElsewhere is a sync of the file system by another program, to which failures are reported.
func (d *Disk) SyncElsewhere() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	sample := d.failure.sample()
	d.syncAll()
	return d.failure.since(&sample)
}

// Evict drops from memory what needs not be written, as the system does when memory is short: what it failed to
// write is gone, and that it failed.
func (d *Disk) Evict() {
	d.mu.Lock()
	defer d.mu.Unlock()
	walk(d.root, func(n *node) {
		if !n.folder && len(n.dirty) == 0 {
			n.content, n.failure = slices.Clone(n.disk.content), report{}
		}
	})
}

// beginSync counts a sync, and reports whether it fails.
func (d *Disk) beginSync(name string) (fails bool) {
	d.syncs++
	return d.failing[d.syncs] || d.FailSyncs != nil && d.FailSyncs(name)
}

// fail is a failure to write a file.
func (d *Disk) fail(n *node) {
	clear(n.dirty)
	n.failure.note()
	d.failure.note()
}

// Kill ends all processes. What they have written stays.
func (d *Disk) Kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.end()
}

func (d *Disk) end() {
	d.epoch++
	d.crashAt = 0
	clear(d.failing)
	walk(d.root, func(n *node) { n.locks = nil })
}

// Loss is what a power failure loses of what is not durable.
type Loss int

// Losses.
const (
	LoseAll  Loss = iota // of what was not synced
	LoseNone             // but the processes
	LoseSome             // a part of the sectors and changes, at random
)

// PowerFailure ends all processes, and loses what was not synced.
func (d *Disk) PowerFailure(loss Loss, seed uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.end()
	random := rand.New(rand.NewPCG(seed, 3))
	keeps := func() bool { return loss == LoseNone || loss == LoseSome && random.IntN(2) == 0 }
	for _, c := range d.pending {
		if keeps() {
			c.write()
		}
	}
	d.pending = nil
	done := make(map[*node]bool)
	walkDisk(d.root, func(n *node) {
		if done[n] {
			return
		}
		done[n] = true
		for _, at := range sortedKeys(n.dirty) {
			if keeps() {
				n.writeSector(at)
			}
		}
		if loss == LoseNone {
			n.writeAll()
		}
		clear(n.dirty)
		n.failure = report{}
		n.content, n.modified = slices.Clone(n.disk.content), n.disk.modified
		if n.folder {
			n.entries = make(map[string]*node)
			for name, child := range n.disk.entries {
				n.entries[name] = child
			}
		}
	})
	d.failure = report{}
}

func sortedKeys(m map[int]bool) []int {
	keys := make([]int, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func sortedNames(m map[string]*node) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// walk calls do with all that the system has.
func walk(n *node, do func(*node)) {
	do(n)
	for _, name := range sortedNames(n.entries) {
		walk(n.entries[name], do)
	}
}

// walkDisk calls do with all that is on disk.
func walkDisk(n *node, do func(*node)) {
	do(n)
	for _, name := range sortedNames(n.disk.entries) {
		walkDisk(n.disk.entries[name], do)
	}
}

// write makes a change durable.
func (c *change) write() {
	for _, p := range c.parts {
		if p.to == nil {
			delete(p.in.disk.entries, p.name)
		} else {
			p.in.disk.entries[p.name] = p.to
		}
	}
}

// writeSector writes a sector of a file to disk.
func (n *node) writeSector(at int) {
	from, to := at*Sector, min((at+1)*Sector, len(n.content))
	if from >= to {
		return // it was truncated
	}
	if len(n.disk.content) < to {
		n.disk.content = append(n.disk.content, make([]byte, to-len(n.disk.content))...)
	}
	copy(n.disk.content[from:to], n.content[from:to])
}

// writeAll writes what is to be written of a file.
func (n *node) writeAll() {
	for at := range n.dirty {
		n.writeSector(at)
	}
	if len(n.disk.content) > len(n.content) {
		n.disk.content = n.disk.content[:len(n.content)]
	}
	clear(n.dirty)
	n.disk.modified = n.modified
}

// syncFolder makes the names in a folder durable.
func (d *Disk) syncFolder(n *node) {
	d.pending = slices.DeleteFunc(d.pending, func(c *change) bool {
		if !slices.ContainsFunc(c.parts, func(p part) bool { return p.in == n }) {
			return false
		}
		c.write()
		return true
	})
}

func (d *Disk) syncAll() {
	for _, c := range d.pending {
		c.write()
	}
	d.pending = nil
	walk(d.root, (*node).writeAll)
}

// find returns the node of a name. Callers must hold mu.
func (d *Disk) find(name string) (*node, error) {
	n := d.root
	if name == "." {
		return n, nil
	}
	for element := range strings.SplitSeq(name, "/") {
		if !n.folder {
			return nil, syscall.ENOTDIR
		}
		next := n.entries[element]
		if next == nil {
			return nil, syscall.ENOENT
		}
		n = next
	}
	return n, nil
}

// folderOf returns the folder of a name, and its last element.
func (d *Disk) folderOf(name string) (*node, string, error) {
	in, err := d.find(path.Dir(name))
	if err == nil && !in.folder {
		err = syscall.ENOTDIR
	}
	return in, path.Base(name), err
}

// apply makes a change in memory, and keeps it for the disk.
func (d *Disk) apply(parts ...part) {
	for _, p := range parts {
		if p.to == nil {
			delete(p.in.entries, p.name)
		} else {
			p.in.entries[p.name] = p.to
		}
	}
	d.pending = append(d.pending, &change{parts})
}

// Corrupt changes the content of a file on disk and in memory, as a bad disk does.
func (d *Disk) Corrupt(name string, change func(content []byte) []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.find(name)
	if err != nil {
		return &fs.PathError{Op: "corrupt", Path: name, Err: err}
	}
	n.content = change(slices.Clone(n.content))
	n.disk.content = slices.Clone(n.content)
	clear(n.dirty)
	return nil
}

// Files returns the names of the files that the system has, and their content.
func (d *Disk) Files() map[string][]byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	files := make(map[string][]byte)
	var add func(at string, n *node)
	add = func(at string, n *node) {
		if !n.folder {
			files[at] = slices.Clone(n.content)
		}
		for name, child := range n.entries {
			add(path.Join(at, name), child)
		}
	}
	add(".", d.root)
	return files
}

// String describes a call, for messages.
func describe(op, name string) string { return fmt.Sprintf("%s %s", op, name) }

var _ localfile.FS = (*FS)(nil)
