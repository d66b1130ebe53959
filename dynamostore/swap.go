package dynamostore

import (
	"fmt"
	"strings"
	"time"

	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/tabletheory"
)

// A swap is a compare-and-swap of META, with the version rows that it affects.
type swap struct {
	store *Store
	fence fence
	next  store.Entry // normalized
	// current is the sort key of the version that META names afterwards; empty for
	// none.
	current string
	// superseded is the sort key of the version that META names now; empty if there is none, or
	// if it stays current. supersededAt is its ttl, in epoch seconds.
	superseded   string
	supersededAt int64
	// replaced: the superseded version is deleted now.
	replaced bool
	// newer requires that the next entry is newer, for the guard Monotonic.
	newer bool
}

// newSwap returns the swap that replaces the row of a fence by an entry. kept: the
// entry has a version row. for superseded see [store.PublishOptions].
func (s *Store) newSwap(f fence, next store.Entry, kept bool, superseded time.Time) (swap, error) {
	next, err := normalize(next)
	if err != nil {
		return swap{}, err
	}
	if err := checkMoment("Superseded", superseded); err != nil {
		return swap{}, fmt.Errorf("%w: %w", store.ErrInvalidInput, err)
	}
	now := s.config.Now()
	next.Version = f.next(now)
	w := swap{store: s, fence: f, next: next}
	if kept {
		w.current = versionPrefix + next.GenerationID
	}
	if named := f.meta.text(attrCurrent); strings.HasPrefix(named, versionPrefix) && named != w.current {
		w.superseded, w.supersededAt = named, retirement(now, superseded, next.Expires)
	}
	return w, nil
}

// longestSuperseded bounds the default lifetime of a superseded version.
const longestSuperseded = 30 * 24 * time.Hour

// retirement returns the ttl of a superseded version, in epoch seconds.
func retirement(now, asked, expires time.Time) int64 {
	if asked.IsZero() {
		asked = now.Add(longestSuperseded)
		if !expires.IsZero() && expires.Before(asked) {
			asked = expires
		}
	}
	return floorSeconds(wholeMoment(asked))
}

// fenceOf returns the fence of a record that this package has read.
func fenceOf(read store.Record) (fence, error) {
	f, ok := read.Fence.(fence)
	if !ok {
		return fence{}, fmt.Errorf("the record was not read from this table")
	}
	return f, nil
}

// updateMeta updates META if it is what was read. The update sets or removes every
// attribute of the reference schema, so that no generation inherits from another, and
// preserves unknown attributes.
func (w *swap) updateMeta() action {
	row := newMetaRow(w.store.at(w.fence.pk, skMeta), w.next)
	row.Current = w.current
	conditions := []tabletheory.Precondition{w.fence.condition()}
	if w.newer && w.fence.meta != nil {
		conditions = append(conditions, isNewer(w.next.GeneratedAt))
	}
	if !w.store.config.Guards.Version {
		return update(onMeta, row, nil, conditions...)
	}
	counted := w.fence.counted(row)
	if w.fence.meta != nil {
		conditions = append(conditions, w.fence.sameCount())
	}
	return update(onMeta, counted, nil, conditions...)
}

// retireVersion sets the ttl of the superseded version, or deletes it if it is
// replaced, on condition that its row exists.
func (w *swap) retireVersion() []action {
	if w.superseded == "" {
		return nil
	}
	if w.replaced {
		row := &contentRow{location: w.store.at(w.fence.pk, w.superseded)}
		return []action{remove(onSuperseded, row, tabletheory.IfExists())}
	}
	row := &contentRow{location: w.store.at(w.fence.pk, w.superseded), Expires: new(horizon(w.supersededAt))}
	return []action{update(onSuperseded, row, []string{"Expires"}, tabletheory.IfExists())}
}

// skipSuperseded omits the superseded version from further attempts: its row is gone,
// and version rows do not come back.
func (w *swap) skipSuperseded() { w.superseded = "" }
