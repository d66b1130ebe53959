package spec_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/internal/vocabulary"
	"github.com/facetheory/isr/store"
)

type readVector struct {
	Name      string            `json:"name"`
	Rows      []item            `json:"rows"`
	Entry     *vocabulary.Entry `json:"entry,omitempty"`
	Cover     *cover            `json:"cover,omitempty"`
	Lock      *lock             `json:"lock,omitempty"`
	Malformed *malformed        `json:"malformed,omitempty"`
}

type versionsVector struct {
	Name    string              `json:"name"`
	Rows    []item              `json:"rows"`
	Entries []*vocabulary.Entry `json:"entries"`
}

// A storedRequest is the JSON form of store.RequestRecord.
type storedRequest struct {
	Hash         string `json:"request_hash,omitempty"`
	Status       string `json:"status,omitempty"`
	Result       string `json:"result_s3_key,omitempty"`
	GenerationID string `json:"generation_id,omitempty"`
	Until        int64  `json:"in_progress_until,omitempty"`
	Failure      string `json:"error,omitempty"`
}

type storedRequestVector struct {
	Name      string         `json:"name"`
	Row       item           `json:"row"`
	Now       int64          `json:"now_ms"`
	Key       string         `json:"key"`
	Request   *storedRequest `json:"request,omitempty"`
	Malformed *malformed     `json:"malformed,omitempty"`
}

type sequenceVector struct {
	Name         string     `json:"name"`
	Row          item       `json:"row"`
	Seq          int64      `json:"seq"`
	MarkLifetime int64      `json:"mark_lifetime"`
	Malformed    *malformed `json:"malformed,omitempty"`
}

type page struct {
	Tenant string `json:"tenant,omitempty"`
	Key    string `json:"key"`
}

type change struct {
	Seq     int64  `json:"seq"`
	Reload  []page `json:"reload,omitempty"`
	Marks   []mark `json:"marks,omitempty"`
	Confirm bool   `json:"confirm,omitempty"`
}

type logVector struct {
	Name      string     `json:"name"`
	Rows      []item     `json:"rows"`
	After     int64      `json:"after"`
	Changes   []change   `json:"changes"`
	Malformed *malformed `json:"malformed,omitempty"`
}

func TestItems(t *testing.T) {
	type file struct {
		CacheKey  string                `json:"cache_key"`
		PK        string                `json:"pk"`
		Reads     []readVector          `json:"reads"`
		Versions  []versionsVector      `json:"versions"`
		Requests  []storedRequestVector `json:"requests"`
		Sequences []sequenceVector      `json:"sequences"`
		Logs      []logVector           `json:"logs"`
	}
	run(t, "items.json", func(f *file) {
		f.CacheKey, f.PK = cacheKey, partitionKey()
		for i := range f.Reads {
			f.Reads[i].answer(t)
		}
		for i := range f.Versions {
			f.Versions[i].answer(t)
		}
		for i := range f.Requests {
			f.Requests[i].answer(t)
		}
		for i := range f.Sequences {
			f.Sequences[i].answer(t)
		}
		for i := range f.Logs {
			f.Logs[i].answer(t)
		}
	})
}

func (v *readVector) answer(t *testing.T) {
	t.Helper()
	rec := newTable(t, 1, v.Rows...).read()
	v.Entry, v.Cover, v.Lock = vocabulary.EntryOf(rec.Entry), coverOf(rec.Purges), lockOf(rec.Lock)
	v.Malformed = malformedOf(t, rec.Malformed)
}

func (v *versionsVector) answer(t *testing.T) {
	t.Helper()
	tb := newTable(t, 1, v.Rows...)
	versions, err := tb.store.Versions(tb.ctx(), partitionKey())
	if err != nil {
		t.Errorf("%s: %v", v.Name, err)
	}
	v.Entries = []*vocabulary.Entry{}
	for _, e := range versions {
		v.Entries = append(v.Entries, vocabulary.EntryOf(&e))
	}
}

func (v *storedRequestVector) answer(t *testing.T) {
	t.Helper()
	tb := newTable(t, v.Now, v.Row)
	r, found, err := tb.store.RequestRecord(tb.ctx(), partitionKey(), v.Key)
	v.Request, v.Malformed = nil, malformedOf(t, err)
	if found {
		v.Request = &storedRequest{
			Hash: r.Hash, Status: r.State.String(), Result: r.BodyKey, GenerationID: r.GenerationID,
			Until: vocabulary.SecondOf(r.InProgressUntil), Failure: r.Failure,
		}
	}
}

func (v *sequenceVector) answer(t *testing.T) {
	t.Helper()
	var rows []item
	if v.Row != nil {
		rows = append(rows, v.Row)
	}
	tb := newTable(t, 1, rows...)
	seq, err := tb.store.Sequence(tb.ctx())
	v.Seq, v.MarkLifetime, v.Malformed = seq.Seq, int64(seq.MarkLifetime/time.Second), malformedOf(t, err)
}

func (v *logVector) answer(t *testing.T) {
	t.Helper()
	// Changes returns rows up to SEQ.
	end := item{
		"pk": &types.AttributeValueMemberS{Value: "PURGE"}, "sk": &types.AttributeValueMemberS{Value: "SEQ"},
		"seq": &types.AttributeValueMemberN{Value: "99"},
	}
	tb := newTable(t, 1, append(v.Rows, end)...)
	_, changes, err := tb.store.Changes(tb.ctx(), v.After)
	if err != nil {
		t.Fatal(err)
	}
	v.Changes, v.Malformed = []change{}, nil
	for _, c := range changes {
		if c.Malformed == nil {
			v.Changes = append(v.Changes, changeOf(c))
		} else if v.Malformed == nil {
			v.Malformed = malformedOf(t, c.Malformed)
		}
	}
}

func changeOf(c store.Change) change {
	found := change{Seq: c.Seq, Confirm: c.Confirm}
	for _, k := range c.Reload {
		found.Reload = append(found.Reload, page{Tenant: k.Tenant, Key: k.Text})
	}
	for _, m := range c.Marks {
		found.Marks = append(found.Marks, markOf(m))
	}
	return found
}

// isLog reports whether the item is a row of the log.
func (i item) isLog() bool {
	return strings.HasPrefix(i.text("sk"), "LOG#")
}
