package store

import bolt "go.etcd.io/bbolt"

// A scan reads parts of the file that hardly anything reads again, and the system counts them as memory of this
// process while they are mapped. They are given back every two megabytes; the kernel keeps them in its page
// cache as long as it has room, where finding one again costs a page fault without a read.

// residentScan is how much is read by ranges until the mapped parts of the file are given back, in bytes of keys
// and values. In a file that was filled in no order, what is mapped for that is some ten times as much, by whole leaves and by
// what the kernel maps around each of them.
const residentScan = 2 << 20

// scanned notes that a range has read some bytes within a transaction.
func (b *Bolt) scanned(tx *bolt.Tx, bytes int64) {
	if b.inRanges.Add(bytes) < residentScan || tx.Writable() {
		return
	}
	b.inRanges.Store(0)
	// bbolt maps the file elsewhere when it grows, but not while a transaction reads it, and what a
	// transaction can read is mapped.
	giveBack(b.db.Info().Data, tx.Size())
}
