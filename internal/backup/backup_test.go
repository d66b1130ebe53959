package backup_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/internal/backup"
	"github.com/facetheory/isr/internal/embedded"
	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/store"
)

// A site is the open folder of a server.
type site struct {
	t    *testing.T
	db   *localdynamo.DB
	meta *dynamostore.Store
	disk *embedded.Disk
}

func openSite(t *testing.T, dir string) *site {
	t.Helper()
	db, err := embedded.OpenEngine(dir)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	meta, disk, err := embedded.Open(t.Context(), dir, db, dynamostore.Config{}, nil, log)
	if err != nil {
		t.Fatal(errors.Join(err, db.Close()))
	}
	s := &site{t: t, db: db, meta: meta, disk: disk}
	t.Cleanup(func() { _ = s.close() })
	return s
}

func (s *site) close() error { return errors.Join(s.disk.Close(), s.db.Close()) }

func (s *site) source() backup.Source {
	return backup.Source{DB: s.db, Disk: s.disk, Pages: s.meta, Folder: true}
}

func pageKey(i int) store.Key { return store.Key{Text: fmt.Sprintf("example.com/%d", i)} }

// content is the body of a generation of a page.
func content(i, generation int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "page %d, generation %d\n", i, generation), 1+(i*7+generation)%300)
}

// publish stores a generation of a page, as a cache does, and deletes the body of the one before, as the garbage
// collection does.
func (s *site) publish(i, generation int) error {
	ctx, pk := s.t.Context(), store.HashedPartition(pageKey(i))
	lease, err := s.meta.Acquire(ctx, pk, time.Minute, nil)
	if err != nil {
		return err
	}
	read, err := s.meta.Read(ctx, pk)
	if err != nil {
		return err
	}
	body, key := content(i, generation), bodyKey(pk, generation)
	if err := s.disk.Put(ctx, key, body); err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	now := time.Now()
	_, err = s.meta.Publish(ctx, lease, read, store.Entry{
		BodyKey: key, GeneratedAt: now, Revalidate: time.Hour, Expires: now.Add(24 * time.Hour), GenerationID: strconv.Itoa(generation),
		Key: pageKey(i).Text, Status: 200, SHA256: hex.EncodeToString(sum[:]), Length: int64(len(body)),
	}, store.PublishOptions{})
	if err == nil && read.Entry != nil {
		err = s.disk.Delete(ctx, read.Entry.BodyKey)
	}
	return err
}

func bodyKey(pk string, generation int) string {
	sum := sha256.Sum256([]byte(pk))
	return fmt.Sprintf("bodies/%s/%08d", hex.EncodeToString(sum[:]), generation)
}

// generation returns the generation of a page and whether its body is what was rendered.
func (s *site) generation(i int) (generation int, whole bool) {
	s.t.Helper()
	record, err := s.meta.Read(s.t.Context(), store.HashedPartition(pageKey(i)))
	if err != nil {
		s.t.Fatal(err)
	}
	if record.Entry == nil {
		return 0, false
	}
	generation, err = strconv.Atoi(record.Entry.GenerationID)
	if err != nil {
		s.t.Fatal(err)
	}
	body, _, err := s.disk.Open(s.t.Context(), record.Entry.BodyKey)
	if err != nil {
		s.t.Errorf("page %d: %v", i, err)
		return generation, false
	}
	defer body.Close()
	found, err := io.ReadAll(body)
	return generation, err == nil && bytes.Equal(found, content(i, generation))
}

// A traffic writes to a site until it is stopped. After that, acknowledged is the newest generation of each
// page.
type traffic struct {
	stop    context.CancelFunc
	running sync.WaitGroup

	mu           sync.Mutex
	acknowledged []int // guarded by mu
}

const pages = 40

func (s *site) traffic() *traffic {
	ctx, stop := context.WithCancel(s.t.Context())
	tr := &traffic{stop: stop, acknowledged: make([]int, pages)}
	for worker := range 4 {
		tr.running.Go(func() {
			for generation := 1; ctx.Err() == nil; generation++ {
				for i := worker; i < pages; i += 4 {
					if err := s.publish(i, generation); err != nil {
						s.t.Errorf("publish: %v", err)
						return
					}
					tr.mu.Lock()
					tr.acknowledged[i] = generation
					tr.mu.Unlock()
				}
			}
		})
	}
	return tr
}

// soFar returns what is acknowledged, once each page has a generation above least.
func (tr *traffic) soFar(least int) []int {
	for {
		tr.mu.Lock()
		all := append([]int(nil), tr.acknowledged...)
		tr.mu.Unlock()
		ready := true
		for _, generation := range all {
			ready = ready && generation > least
		}
		if ready {
			return all
		}
		time.Sleep(time.Millisecond)
	}
}

// TestBackupUnderWrites: a folder that is restored from a backup under writes has every page that was
// acknowledged before the backup began, or a newer generation, with its whole body; and the purges.
func TestBackupUnderWrites(t *testing.T) {
	t.Parallel()
	s := openSite(t, t.TempDir())
	tr := s.traffic()
	defer tr.stop()
	tr.soFar(2)
	purged := store.PurgeTarget{Kind: store.PurgeTag, Value: "recalled"}
	receipt, err := s.meta.Purge(t.Context(), store.Purge{Targets: []store.PurgeTarget{purged}, Hard: true})
	if err != nil {
		t.Fatal(err)
	}
	before := tr.soFar(2)
	file := filepath.Join(t.TempDir(), "backup.tar")
	w := &slowly{t: t, tr: tr}
	w.file, err = os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.source().Write(t.Context(), w, nil), w.file.Close()); err != nil {
		t.Fatal(err)
	}
	tr.stop()
	tr.running.Wait()

	restored := restoreSite(t, file)
	for i, least := range before {
		if generation, whole := restored.generation(i); generation < least || !whole {
			t.Errorf("page %d: generation %d, whole: %v; want %d or newer", i, generation, whole, least)
		}
	}
	sequence, err := restored.meta.Sequence(t.Context())
	if err != nil || sequence.Seq < receipt.Seq {
		t.Errorf("the log is at %d (%v), want %d", sequence.Seq, err, receipt.Seq)
	}
	found := false
	for mark, err := range restored.meta.Marks(t.Context()) {
		found = found || err == nil && mark.HardSeq == receipt.Seq
	}
	if !found {
		t.Error("the hard purge is lost")
	}
	if faults, err := restored.source().Check(t.Context(), nil); err != nil || len(faults) > 0 {
		t.Errorf("Check: %q, %v", faults, err)
	}
	if err := restored.publish(0, 1_000_000); err != nil {
		t.Errorf("a page of the restored folder is published: %v", err)
	}
}

// A slowly is a backup's file. While it is written, each page is published again, three times, so that the
// bodies of before are replaced.
type slowly struct {
	t    *testing.T
	tr   *traffic
	file *os.File
	n    int
}

func (w *slowly) Write(b []byte) (int, error) {
	const every, most = 20, 60 // a few times are enough, and each takes a while on a busy machine
	if w.n++; w.n%every == 0 && w.n <= most {
		w.tr.mu.Lock()
		now := w.tr.acknowledged[0]
		w.tr.mu.Unlock()
		w.tr.soFar(now)
	}
	return w.file.Write(b)
}

func restoreSite(t *testing.T, file string) *site {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dir := filepath.Join(t.TempDir(), "restored")
	if _, err := backup.Restore(t.Context(), f, dir, nil); err != nil {
		t.Fatal(err)
	}
	return openSite(t, dir)
}

// smallBackup returns the bytes of a backup of three pages.
func smallBackup(t *testing.T) []byte {
	t.Helper()
	s := openSite(t, t.TempDir())
	for i := range 3 {
		if err := s.publish(i, 1); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if err := s.source().Write(t.Context(), &b, nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestRestoreDamagedBackup: a backup that is cut off or changed is refused, and nothing is at the target, nor beside it.
func TestRestoreDamagedBackup(t *testing.T) {
	t.Parallel()
	whole := smallBackup(t)
	damaged := map[string][]byte{"empty": nil, "text": []byte(strings.Repeat("hello ", 1000))}
	for n := 600; n < len(whole)-1024; n += len(whole) / 40 {
		damaged[fmt.Sprintf("cut off at %d", n)] = whole[:n]
	}
	for at := 700; at < len(whole)-3000; at += len(whole) / 61 {
		changed := bytes.Clone(whole)
		changed[at] ^= 1
		if header := at % 512; !bytes.Equal(changed, whole) && header >= 0 {
			damaged[fmt.Sprintf("changed at %d", at)] = changed
		}
	}
	for name, contents := range damaged {
		folder := t.TempDir()
		_, err := backup.Restore(t.Context(), bytes.NewReader(contents), filepath.Join(folder, "restored"), nil)
		if !errors.Is(err, backup.ErrDamaged) && !errors.Is(err, backup.ErrNotBackup) {
			if _, verified := backup.Verify(t.Context(), bytes.NewReader(contents), nil); verified != nil || err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue // a byte of padding
		}
		if entries, err := os.ReadDir(folder); err != nil || len(entries) > 0 {
			t.Errorf("%s: the folder has %v (%v)", name, entries, err)
		}
	}
}

// TestRestoreRefusesTarget: nothing that exists is overwritten.
func TestRestoreRefusesTarget(t *testing.T) {
	t.Parallel()
	whole := smallBackup(t)
	folder := t.TempDir()
	file := filepath.Join(folder, "a file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{folder, file} {
		if _, err := backup.Restore(t.Context(), bytes.NewReader(whole), path, nil); err == nil || !strings.Contains(err.Error(), "move it away") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "precious" {
		t.Errorf("the file has %q (%v)", text, err)
	}
	empty := t.TempDir()
	if _, err := backup.Restore(t.Context(), bytes.NewReader(whole), empty, nil); err != nil {
		t.Errorf("an empty folder: %v", err)
	}
}

// TestCheckFindsBodies: a body that is damaged or missing is found, and nothing is changed.
func TestCheckFindsBodies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openSite(t, dir)
	for i := range 3 {
		if err := s.publish(i, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.disk.Delete(t.Context(), bodyKey(store.HashedPartition(pageKey(1)), 1)); err != nil {
		t.Fatal(err)
	}
	if err := damageFile(dir, content(2, 1)); err != nil {
		t.Fatal(err)
	}
	faults, err := s.source().Check(t.Context(), nil)
	if err != nil || len(faults) != 2 {
		t.Fatalf("Check: %q, %v", faults, err)
	}
	all := strings.Join(faults, "\n")
	for _, want := range []string{"example.com/1: its body", "is missing", "example.com/2: its body", "is damaged"} {
		if !strings.Contains(all, want) {
			t.Errorf("the faults %q do not name %q", all, want)
		}
	}
}

// damageFile flips a bit of the file with this content.
func damageFile(dir string, content []byte) error {
	return filepath.WalkDir(filepath.Join(dir, "bodies"), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		found, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(found, content) {
			return err
		}
		found[0] ^= 1
		return os.WriteFile(path, found, 0o600)
	})
}

// TestBackupOfFile: one file of tables is backed up and restored without a folder.
func TestBackupOfFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	db, err := localdynamo.Open(filepath.Join(folder, "tables"), localdynamo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := dynamostore.CreateTable(t.Context(), db, "kept"); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := (backup.Source{DB: db}).Write(t.Context(), &b, nil); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "restored")
	if _, err := backup.Restore(t.Context(), &b, path, nil); err != nil {
		t.Fatal(err)
	}
	again, err := localdynamo.Open(path, localdynamo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if err := dynamostore.CheckTable(t.Context(), again, "kept", nil); err != nil {
		t.Error(err)
	}
}
