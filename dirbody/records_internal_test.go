package dirbody

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
)

// recordsOf returns a journal, and the offsets of its records and the offset of its end.
func recordsOf(bodies ...string) (journal []byte, starts []int) {
	for i, body := range bodies {
		starts = append(starts, len(journal))
		journal = appendRecord(journal, fmt.Sprintf("bodies/%064x/g", i), []byte(body))
	}
	return journal, append(starts, len(journal))
}

// readAll returns the numbers of the records that can be read.
func readAll(t *testing.T, journal io.ReaderAt, bodies []string) (read []int, found journalContent) {
	t.Helper()
	found, err := readJournal(journal, func(file string, body []byte) error {
		for i := range bodies {
			if file == fileName(fmt.Sprintf("bodies/%064x/g", i)) && string(body) == bodies[i] {
				read = append(read, i)
				return nil
			}
		}
		t.Errorf("%s was never written with %.20q", file, body)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return read, found
}

// journalBodies are of many lengths; one looks like records itself, and one has the maximal length.
func journalBodies() []string {
	inner, _ := recordsOf("inner", "records")
	bodies := []string{"", string(inner), "x", strings.Repeat("y", maxJournaled), string(inner[:len(inner)-1]), "bodies/", "z"}
	for i := range 4 {
		bodies = append(bodies, strings.Repeat(fmt.Sprint(i), 20+i))
	}
	return bodies
}

// A flipped bit anywhere loses one record, and what was lost is reported. Parts of a body that look like records
// may be read, if the length of their record is damaged.
func TestFlippedBitLosesOneRecord(t *testing.T) {
	t.Parallel()
	bodies := journalBodies()
	journal, starts := recordsOf(bodies...)
	for at := 0; at < len(journal); at++ {
		if at > starts[3]+200 && at < starts[4]-200 {
			at += 997 // within the long body
		}
		damaged := bytes.Clone(journal)
		damaged[at] ^= 1 << (at % 8)
		hit := 0
		for starts[hit+1] <= at {
			hit++
		}
		seen := make(map[string]bool)
		found, err := readJournal(bytes.NewReader(damaged), func(file string, body []byte) error {
			seen[file+string(body)] = true
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, body := range bodies {
			if key := fileName(fmt.Sprintf("bodies/%064x/g", i)) + body; seen[key] == (i == hit) {
				t.Fatalf("flip at %d, in record %d: record %d was read: %v", at, hit, i, seen[key])
			}
		}
		lost := found.lost
		if len(lost) == 0 || lost[0].at != int64(starts[hit]) || lost[len(lost)-1].at+lost[len(lost)-1].length > int64(starts[hit+1]) {
			t.Fatalf("flip at %d, in the record from %d to %d: lost %v", at, starts[hit], starts[hit+1], lost)
		}
		if !found.isDamaged() && hit < len(bodies)-1 {
			t.Fatalf("flip at %d: the journal is not damaged", at)
		}
	}
}

// A journal that ends early is not damaged: a crash has torn it. All records before are read.
func TestTornJournal(t *testing.T) {
	t.Parallel()
	bodies := []string{"first", "", "third"}
	journal, starts := recordsOf(bodies...)
	for end := range len(journal) + 1 {
		whole := 0
		for whole < len(bodies) && starts[whole+1] <= end {
			whole++
		}
		for name, torn := range map[string][]byte{"short": journal[:end], "zeros": append(bytes.Clone(journal[:end]), make([]byte, 5000)...)} {
			if name == "zeros" && end > starts[whole]+5 {
				continue // the header states the length of the key
			}
			read, found := readAll(t, bytes.NewReader(torn), bodies)
			if len(read) != whole || found.isDamaged() || found.torn != (len(torn) > starts[whole]) {
				t.Errorf("%s, from %d: read %d of %d records, %+v", name, end, len(read), whole, found)
			}
		}
	}
}

// Sectors of zeros cost the records in them.
func TestLostSectors(t *testing.T) {
	t.Parallel()
	bodies := journalBodies()
	for range 3 {
		bodies = append(bodies, bodies...)
	}
	journal, starts := recordsOf(bodies...)
	const sector = 512
	for at := 0; at+sector < len(journal); at += sector {
		damaged := bytes.Clone(journal)
		clear(damaged[at : at+sector])
		seen := make(map[string]bool)
		if _, err := readJournal(bytes.NewReader(damaged), func(file string, body []byte) error {
			seen[file+string(body)] = true
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for i, body := range bodies {
			whole := starts[i+1] <= at || starts[i] >= at+sector
			if key := fileName(fmt.Sprintf("bodies/%064x/g", i)) + body; whole && !seen[key] {
				t.Fatalf("sector at %d: record %d, from %d to %d, was not read", at, i, starts[i], starts[i+1])
			}
		}
	}
}

// A badDisk cannot read some blocks.
type badDisk struct {
	io.ReaderAt
	from, to int64
}

func (d badDisk) ReadAt(p []byte, at int64) (int, error) {
	switch {
	case at >= d.to || at+int64(len(p)) <= d.from:
		return d.ReaderAt.ReadAt(p, at)
	case at >= d.from:
		return 0, syscall.EIO
	}
	n, err := d.ReaderAt.ReadAt(p[:d.from-at], at)
	if err == nil {
		err = syscall.EIO
	}
	return n, err
}

// A block that the disk cannot read costs the records in it. A disk that can read nothing is an error.
func TestUnreadableBlocks(t *testing.T) {
	t.Parallel()
	var bodies []string
	for i := range 100 {
		bodies = append(bodies, strings.Repeat("b", 10*i))
	}
	journal, starts := recordsOf(bodies...)
	disk := badDisk{ReaderAt: bytes.NewReader(journal), from: 8192, to: 12288}
	read, found := readAll(t, disk, bodies)
	want := 0
	for i := range bodies {
		if int64(starts[i+1]) <= disk.from || int64(starts[i]) >= disk.to {
			want++
		}
	}
	if len(read) != want || !found.isDamaged() {
		t.Errorf("read %d records, want %d; lost %v", len(read), want, found.lost)
	}
	if _, err := readJournal(badDisk{ReaderAt: bytes.NewReader(journal), to: 1 << 30}, nil); err == nil {
		t.Error("a disk that reads nothing: no error")
	}
}
