package dynamostore

import (
	"context"
	"errors"
	"fmt"

	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/tabletheory"
)

// buildRow is the current build of the site: the row BUILD in the partition of the purge
// log.
type buildRow struct {
	location

	Value string `theorydb:"attr:value"`
	Seq   count  `theorydb:"attr:seq"`
}

var requiredOfBuild = []required{{attrValue, expectedText}, {attrSeq, expectedCount}}

// maxBuilds bounds how often Build gives way to other builds.
const maxBuilds = 8

// Build implements [store.PurgeStore]. It costs a read unit, and six write units and
// another read unit for a new build. If processes of several builds start at the same
// time, the build of the last one is the current one.
func (s *Store) Build(ctx context.Context, id string) (int64, error) {
	ctx = s.metered(ctx, "build")
	if err := store.ValidBuild(id); err != nil {
		return 0, err
	}
	seq, err := s.build(ctx, id)
	for tries := 1; errors.Is(err, store.ErrMoved) && tries < maxBuilds; tries++ {
		seq, err = s.build(ctx, id) // another process, perhaps of the same build, came first
	}
	if err != nil {
		return 0, fmt.Errorf("build %s: %w", id, err)
	}
	return seq, nil
}

func (s *Store) build(ctx context.Context, id string) (int64, error) {
	found, err := s.readRow(ctx, true, pkPurgeLog, skBuild)
	if err != nil {
		return 0, err
	}
	if found != nil {
		if err := found.check("", found, requiredOfBuild); err != nil {
			return 0, err
		}
		var r buildRow
		if err := s.decode(ctx, found, &r); err != nil {
			return 0, err
		}
		if r.Value == id {
			return int64(r.Seq), nil
		}
	}
	receipt, err := s.log.commit(ctx, &deployment{store: s, id: id, replaced: found}, nil)
	return receipt.Seq, err
}

// A deployment makes a build the current one.
type deployment struct {
	store    *Store
	id       string
	replaced row // BUILD as it was read; nil if there was none
}

var _ loggedChange = (*deployment)(nil)

func (d *deployment) items() []itemKey { return []itemKey{{pkPurgeLog, skBuild}} }
func (d *deployment) mergeable() bool  { return false }

func (d *deployment) destinations() []string { return nil }

func (d *deployment) write(w *logWrites) []action {
	unchanged := tabletheory.IfNotExists()
	if d.replaced != nil {
		// Its seq grows with every new build.
		var same sameness
		same.require("seq", ":old_seq", d.replaced[attrSeq])
		unchanged = same.condition()
	}
	row := &buildRow{location: d.store.at(pkPurgeLog, skBuild), Value: d.id, Seq: count(w.next())}
	return []action{update(onBuild, row, nil, unchanged)}
}

// recognizes reports whether BUILD has the id already.
func (d *deployment) recognizes(why refusal) bool {
	return why.has(onBuild) && row(why[onBuild].Item).text(attrValue) == d.id
}

func (d *deployment) judge(why refusal) error {
	if why.has(onBuild) {
		return store.ErrMoved
	}
	return nil
}
