package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/store"
)

// A tagPurge purges a tag hard: a member of a group commit that depends on the
// sequence it gets, and on what is read after SEQ.
type tagPurge struct {
	store *Store
	tag   string
}

func (p *tagPurge) items() []itemKey {
	return []itemKey{{pkPurgeLog, markPrefix("", kindTag) + p.tag}}
}

func (p *tagPurge) write(ctx context.Context, next int64) ([]action, []logTarget, error) {
	sk := markPrefix("", kindTag) + p.tag
	found, err := p.store.readRow(ctx, true, pkPurgeLog, sk)
	if err != nil {
		return nil, nil, err
	}
	if found != nil {
		if err := found.check("", found, requiredOfMark); err != nil {
			return nil, nil, err
		}
	}
	mark := &markRow{location: p.store.at(pkPurgeLog, sk), Value: p.tag, Seq: count(next), HardSeq: count(next)}
	return []action{put(onMeta, mark)}, []logTarget{{Kind: kindTag}}, nil
}

func (p *tagPurge) recognizes(refusal) bool { return false }
func (p *tagPurge) judge(refusal) error     { return nil }

// TestGroupOfPurges: changes that depend on their sequence get the one that their
// transaction advances to. One that fails to read a malformed row fails alone.
func TestGroupOfPurges(t *testing.T) {
	t.Parallel()
	db := localdynamo.OpenMemory(localdynamo.Options{SweepInterval: -1})
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := CreateTable(t.Context(), db, "pages"); err != nil {
		t.Fatal(err)
	}
	s, err := New(db, "pages", Config{})
	if err != nil {
		t.Fatal(err)
	}
	bad := &markRow{location: s.at(pkPurgeLog, markPrefix("", kindTag)+"tag-7")}
	if err := s.newTransaction([]action{put(onMeta, bad)}).send(t.Context()); err != nil {
		t.Fatal(err)
	}
	const purges = 300
	var group sync.WaitGroup
	for i := range purges {
		group.Go(func() {
			err := s.log.commit(t.Context(), &tagPurge{store: s, tag: fmt.Sprintf("tag-%d", i)}, nil)
			if isMalformed(err) != (i == 7) || err != nil && i != 7 {
				t.Errorf("purge %d: %v", i, err)
			}
		})
	}
	group.Wait()
	changes, err := s.Changes(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	sizes := make(map[int64]int)
	for i := range purges {
		found, err := s.readRow(t.Context(), true, pkPurgeLog, markPrefix("", kindTag)+fmt.Sprintf("tag-%d", i))
		if err != nil {
			t.Fatal(err)
		}
		var m markRow
		if err := s.decode(t.Context(), found, &m); err != nil {
			t.Fatal(err)
		}
		sizes[int64(m.Seq)]++
	}
	for _, change := range changes {
		if n := sizes[change.Seq]; n < 1 || n > maxGroup {
			t.Errorf("%d purges have the sequence %d", n, change.Seq)
		}
	}
	if len(sizes) != len(changes)+1 { // and that of the malformed one, which is 0
		t.Errorf("the marks have %d sequences, and the log %d", len(sizes), len(changes))
	}
	if err := s.log.commit(endedContext(t), &tagPurge{store: s, tag: "tag-0"}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("by a caller who has left: %v", err)
	}
	if after, err := s.Sequence(t.Context()); err != nil || after != (store.Sequence{Seq: int64(len(changes))}) {
		t.Errorf("Sequence: %+v, %v; want %d", after, err, len(changes))
	}
}

func endedContext(t *testing.T) context.Context {
	ctx, end := context.WithCancel(t.Context())
	end()
	return ctx
}
