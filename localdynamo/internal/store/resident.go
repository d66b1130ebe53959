package store

import (
	"time"

	bolt "go.etcd.io/bbolt"
)

// The system counts the parts of the file that were read as memory of this process while they are mapped. They are
// given back two seconds after the first read, and within a scan every two megabytes, since hardly anything
// reads them again; the kernel keeps them in its page cache as long as it has room, where finding one again
// costs a page fault without a read.

// residentFor is how long what is read remains mapped, at least.
const residentFor = 2 * time.Second

// residentScan is how much is read by ranges until the mapped parts of the file are given back, in bytes of keys
// and values. In a file that was filled in no order, what is mapped for that is some ten times as much, by whole leaves and by
// what the kernel maps around each of them.
const residentScan = 2 << 20

// used notes that a transaction reads the file.
func (b *Bolt) used() {
	if !b.resident.Load() && b.resident.CompareAndSwap(false, true) {
		time.AfterFunc(residentFor, b.release)
	}
}

// release gives back what is mapped.
func (b *Bolt) release() {
	b.resident.Store(false)
	f, done := b.use()
	defer done()
	tx, err := f.db.Begin(false)
	if err != nil {
		return // the file is closed
	}
	defer tx.Rollback()
	b.giveBack(tx)
}

// scanned notes that a range has read some bytes within a transaction.
func (b *Bolt) scanned(tx *bolt.Tx, bytes int64) {
	if b.inRanges.Add(bytes) < residentScan || tx.Writable() {
		return
	}
	b.giveBack(tx)
}

// giveBack gives back what is mapped, within a transaction that reads.
func (b *Bolt) giveBack(tx *bolt.Tx) {
	b.inRanges.Store(0)
	// bbolt maps the file elsewhere when it grows, but not while a transaction reads it, and what a
	// transaction can read is mapped.
	giveBack(tx.DB().Info().Data, tx.Size())
}
