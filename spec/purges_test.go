package spec_test

import (
	"testing"

	"github.com/facetheory/isr/internal/vocabulary"
	"github.com/facetheory/isr/store"
)

// A target is the JSON form of store.PurgeTarget.
type target struct {
	Kind   string `json:"kind"`
	Tenant string `json:"tenant,omitempty"`
	Value  string `json:"value,omitempty"`
}

func targetOf(t store.PurgeTarget) target {
	return target{Kind: string(t.Kind), Tenant: t.Tenant, Value: t.Value}
}

func (t target) target() store.PurgeTarget {
	target := store.PurgeTarget{Kind: store.PurgeKind(t.Kind), Tenant: t.Tenant, Value: t.Value}
	if target.Kind == store.PurgeKey {
		target.PK = store.HashedPartition(store.Key{Tenant: t.Tenant, Text: t.Value})
	}
	return target
}

func (s *step) purge() store.Purge {
	p := store.Purge{Hard: s.Hard, Confirm: s.Confirm}
	for _, t := range s.Targets {
		p.Targets = append(p.Targets, t.target())
	}
	return p
}

// A mark is the JSON form of store.Mark.
type mark struct {
	target
	Seq       int64 `json:"seq"`
	HardSeq   int64 `json:"hard_seq,omitempty"`
	At        int64 `json:"at"`
	ExpireSeq int64 `json:"expire_seq,omitempty"`
	ExpireAt  int64 `json:"expire_at,omitempty"`
}

func markOf(m store.Mark) mark {
	return mark{
		target: targetOf(m.Target), Seq: m.Seq, HardSeq: m.HardSeq, At: vocabulary.SecondOf(m.At),
		ExpireSeq: m.ExpireSeq, ExpireAt: vocabulary.SecondOf(m.ExpireAt),
	}
}

func (m mark) mark() store.Mark {
	return store.Mark{
		Target: m.target.target(), Seq: m.Seq, HardSeq: m.HardSeq, At: vocabulary.Moment(m.At),
		ExpireSeq: m.ExpireSeq, ExpireAt: vocabulary.Moment(m.ExpireAt),
	}
}

func TestPurges(t *testing.T) {
	type file struct {
		CacheKey   string      `json:"cache_key"`
		PK         string      `json:"pk"`
		Operations []operation `json:"operations"`
	}
	run(t, "purges.json", func(f *file) {
		f.CacheKey, f.PK = cacheKey, partitionKey()
		for i := range f.Operations {
			f.Operations[i].answer(t)
		}
	})
}

type marksVector struct {
	Name      string     `json:"name"`
	Rows      []item     `json:"rows"`
	Marks     []mark     `json:"marks"`
	Malformed *malformed `json:"malformed,omitempty"`
}

func (v *marksVector) answer(t *testing.T) {
	t.Helper()
	tb := newTable(t, 1, v.Rows...)
	v.Marks, v.Malformed = []mark{}, nil
	for m, err := range tb.store.Marks(tb.ctx()) {
		if err != nil {
			v.Malformed = malformedOf(t, err)
			break
		}
		v.Marks = append(v.Marks, markOf(m))
	}
}

type coveringVector struct {
	Name      string     `json:"name"`
	Rows      []item     `json:"rows"`
	Now       int64      `json:"now_ms"`
	Tenant    string     `json:"tenant,omitempty"`
	Key       string     `json:"key"`
	Tags      []string   `json:"tags,omitempty"`
	Cover     *cover     `json:"cover,omitempty"`
	Malformed *malformed `json:"malformed,omitempty"`
}

func (v *coveringVector) answer(t *testing.T) {
	t.Helper()
	tb := newTable(t, v.Now, v.Rows...)
	state, err := tb.store.Covering(tb.ctx(), store.Key{Tenant: v.Tenant, Text: v.Key}, v.Tags)
	v.Cover, v.Malformed = coverOf(state), malformedOf(t, err)
}

type includesVector struct {
	Name     string `json:"name"`
	Mark     mark   `json:"mark"`
	Other    mark   `json:"other"`
	Includes bool   `json:"includes"`
}

func TestMarks(t *testing.T) {
	type file struct {
		Marks    []marksVector    `json:"marks"`
		Covering []coveringVector `json:"covering"`
		Logs     []logVector      `json:"logs"`
		Includes []includesVector `json:"includes"`
	}
	run(t, "marks.json", func(f *file) {
		for i := range f.Marks {
			f.Marks[i].answer(t)
		}
		for i := range f.Covering {
			f.Covering[i].answer(t)
		}
		for i := range f.Logs {
			f.Logs[i].answer(t)
		}
		for i := range f.Includes {
			v := &f.Includes[i]
			v.Includes = v.Mark.mark().Includes(v.Other.mark())
		}
	})
}

func TestBuild(t *testing.T) {
	type file struct {
		CacheKey   string       `json:"cache_key"`
		PK         string       `json:"pk"`
		Decisions  []decision   `json:"decisions"`
		Reads      []readVector `json:"reads"`
		Operations []operation  `json:"operations"`
	}
	run(t, "build.json", func(f *file) {
		f.CacheKey, f.PK = cacheKey, partitionKey()
		for i := range f.Decisions {
			f.Decisions[i].answer()
		}
		for i := range f.Reads {
			f.Reads[i].answer(t)
		}
		for i := range f.Operations {
			f.Operations[i].answer(t)
		}
	})
}
