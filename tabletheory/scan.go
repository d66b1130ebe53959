package tabletheory

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"
)

// callsOfScan are the calls that a Scan supports.
const callsOfScan = callIndex | callFilter | callLimit | callSelect | callConsistentRead

// maxSegments is DynamoDB's bound on the segments of a scan.
const maxSegments = 1_000_000

// errEnough ends a scan that has reached its limit.
var errEnough = errors.New("the limit of the scan is reached")

// ParallelScan is [Query.Scan] by this many workers, one for each of DynamoDB's
// segments (1 to 1,000,000). The items come in no particular order.
func (q *Query) ParallelScan(dest any, segments int) error {
	if err := q.begin("ParallelScan", callsOfScan); err != nil {
		return err
	}
	if segments < 1 || segments > maxSegments {
		return invalid("ParallelScan with %d segments: must be 1 to %d", segments, maxSegments)
	}
	l, err := q.destList("ParallelScan", dest)
	if err != nil {
		return err
	}
	r, err := q.scanPager("scan")
	if err != nil {
		return err
	}
	shared := &sharedList{list: l, limit: q.limit}
	workers, ctx := errgroup.WithContext(q.ctx)
	for n := range segments {
		workers.Go(func() error { return r.scanSegment(ctx, segment{int32(n), int32(segments)}, shared) })
	}
	if err := workers.Wait(); err != nil && !errors.Is(err, errEnough) {
		return err
	}
	l.store()
	return nil
}

// scanSegment scans one segment.
func (r *pager) scanSegment(ctx context.Context, part segment, shared *sharedList) error {
	start := r.start
	for fetched := 0; ; fetched++ {
		p, err := r.fetch(ctx, start, r.pageSize(r.limit, fetched), &part)
		if err != nil {
			return err
		}
		decoded := shared.list.empty()
		if err := decoded.add(ctx, r.Query, p.items); err != nil {
			return err
		}
		if !shared.append(decoded) {
			return errEnough
		}
		if len(p.next) == 0 {
			return nil
		}
		start = p.next
	}
}

// sharedList is a list that several workers append to.
type sharedList struct {
	limit int // 0: none

	mu   sync.Mutex
	list *list // guarded by mu, except its type
}

// append appends items and reports whether the scan needs more.
func (s *sharedList) append(items *list) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list.append(items)
	if s.limit == 0 {
		return true
	}
	s.list.truncate(s.limit)
	return s.list.len() < s.limit
}
