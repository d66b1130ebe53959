package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/store"
)

// Pages lists the pages of a table, as store.MetaStore implementations do.
type Pages interface {
	List(ctx context.Context) iter.Seq2[store.ListedPage, error]
}

// maxFaults bounds the faults of bodies that Check returns.
const maxFaults = 20

// Check verifies the table, and then the body of the current generation of each page, and returns what it has found, at
// most 20 faults of each. It changes nothing. progress gets rows and pages instead of bytes.
func (s Source) Check(ctx context.Context, progress Progress) (faults []string, err error) {
	if s.Idle {
		err = s.DB.CheckStructure(ctx)
	}
	if err == nil {
		err = s.DB.Verify(ctx, progress)
	}
	if errors.Is(err, localdynamo.ErrCorrupt) {
		// Listing pages would replace damaged rows.
		return []string{err.Error()}, nil
	}
	if err != nil || s.Disk == nil || s.Pages == nil {
		return nil, err
	}
	hold, err := s.Disk.Hold(ctx) // or bodies of pages that are replaced would be missing
	if err != nil {
		return nil, err
	}
	defer hold.Release()
	done := int64(0)
	for page, err := range s.Pages.List(hold.Context()) {
		if err != nil {
			return faults, errors.Join(context.Cause(hold.Context()), err)
		}
		if done++; progress != nil && done%64 == 0 {
			progress(done, 0)
		}
		fault, err := s.checkBody(hold.Context(), page.Record.Entry)
		if err != nil {
			return faults, errors.Join(context.Cause(hold.Context()), err)
		}
		if fault != "" {
			faults = append(faults, fmt.Sprintf("page %s: %s; it counts as missing, and is rendered when it is next requested", page.Record.Entry.Key, fault))
		}
		if len(faults) == maxFaults {
			break
		}
	}
	return faults, nil
}

// checkBody returns what is wrong with the body of an entry; empty if nothing is.
func (s Source) checkBody(ctx context.Context, e *store.Entry) (fault string, err error) {
	if e == nil || e.Withdrawn || store.ValidBodyKey(e.BodyKey) != nil {
		return "", nil
	}
	body, length, err := s.Disk.Open(ctx, e.BodyKey)
	if errors.Is(err, store.ErrNotFound) {
		return "its body " + e.BodyKey + " is missing", nil
	}
	if err != nil {
		return "", err
	}
	defer body.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, body); err != nil {
		return "its body " + e.BodyKey + " cannot be read: " + err.Error(), nil
	}
	if e.SHA256 != "" && (length != e.Length || hex.EncodeToString(sum.Sum(nil)) != e.SHA256) {
		return "its body " + e.BodyKey + " is damaged", nil
	}
	return "", nil
}

// Compact replaces the file of the table by a copy without unused space, and returns what it has done, in lines for people. With discard
// it leaves damaged values out; otherwise one is an error.
func (s Source) Compact(ctx context.Context, discard bool, progress Progress) (done []string, err error) {
	c, err := s.DB.Compact(ctx, localdynamo.CompactOptions{Discard: discard, Progress: progress})
	if err != nil {
		return nil, err
	}
	for i, d := range c.Discarded {
		if i == maxFaults {
			done = append(done, fmt.Sprintf("and %d more", len(c.Discarded)-i))
			break
		}
		done = append(done, "discarded: "+d.Error())
	}
	return append(done, fmt.Sprintf("compacted from %d to %d bytes", c.Before, c.After)), nil
}
