package simulator

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// purge purges one page as the specification says: one transaction increments SEQ, writes the
// page's PURGE row, and appends to the log, so that all nodes drop their copies.
func (w *world) purge(p *page) {
	hard := w.rng.IntN(2) == 0
	w.log("%s is purged, hard %t: sequence %d", p.path, hard, w.seq+1)
	w.purgePages([]*page{p}, hard)
}

// purgeTag purges all pages with a tag. A purge mark covers the entries that are not current now.
func (w *world) purgeTag(tag string) {
	hard := w.rng.IntN(2) == 0
	var covered []*page
	for _, p := range w.pages {
		if g := p.current(); g != nil && g.ours && g.tag == tag {
			covered = append(covered, p)
		}
	}
	w.log("the tag %s is purged, hard %t: sequence %d", tag, hard, w.seq+1)
	w.purgePages(covered, hard, isr.PurgeTag("", tag))
}

// markLifetime is the lifetime of purge marks, in seconds.
const markLifetime = 60 * 24 * 60 * 60

// purgePages purges pages and tags, and appends one row to the log for all, in one transaction.
func (w *world) purgePages(pages []*page, hard bool, tags ...store.PurgeTarget) {
	w.notePurging() // a mark may cover later generations, too
	seq, at := w.seq+1, trueNow()
	var actions []types.TransactWriteItem
	for _, t := range tags {
		w.tell(t, hard, seq, at)
		actions = append(actions, types.TransactWriteItem{Put: &types.Put{TableName: &w.table, Item: item{
			"pk": text("PURGE"), "sk": text("MARK##tag#" + digest([]byte(t.Value))), "value": text(t.Value),
			"seq": number(seq), "hard_seq": number(w.marks[t].hard), "at": number(at), "ttl": number(at + markLifetime),
		}}})
	}
	actions = append(actions,
		types.TransactWriteItem{Update: &types.Update{
			TableName: &w.table, Key: item{"pk": text("PURGE"), "sk": text("SEQ")}, UpdateExpression: aws.String("SET seq = :n, mark_lifetime = :l"),
			ExpressionAttributeValues: item{":n": number(seq), ":l": number(markLifetime)},
		}},
		types.TransactWriteItem{Put: &types.Put{TableName: &w.table, Item: w.logRow(seq, pages, tags)}},
	)
	for _, p := range pages {
		w.tell(isr.PurgeKey(p.key), hard, seq, at)
		actions = append(actions, types.TransactWriteItem{Put: &types.Put{TableName: &w.table, Item: item{
			"pk": text(p.pk), "sk": text("PURGE"), "seq": number(seq), "hard_seq": number(p.hardSeq), "at": number(trueNow()), "ttl": number(trueNow() + 86400),
		}}})
	}
	w.external(func() error {
		_, err := w.engine.TransactWriteItems(context.Background(), &dynamodb.TransactWriteItemsInput{TransactItems: actions})
		return err
	})
	w.mu.Lock()
	w.seq = seq
	w.mu.Unlock()
	w.noteReadable()
	for _, p := range pages {
		w.look(p, nil)
	}
}

// logRow returns the log row that makes nodes reload pages, and that has the marks of tags.
func (w *world) logRow(seq int64, pages []*page, tags []store.PurgeTarget) item {
	targets := []types.AttributeValue{}
	for _, p := range pages {
		targets = append(targets, &types.AttributeValueMemberM{Value: item{"kind": text("reload"), "key": text(p.key.Text)}})
	}
	for _, t := range tags {
		targets = append(targets, &types.AttributeValueMemberM{Value: item{
			"kind": text("tag"), "tenant": text(""), "value": text(t.Value), "at": number(w.marks[t].at), "hard_seq": number(w.marks[t].hard),
		}})
	}
	return item{
		"pk": text("PURGE"), "sk": text(logKey(seq)), "id": text(rand.Text()),
		"targets": &types.AttributeValueMemberL{Value: targets},
		"ttl":     number(trueNow() + int64(w.pace.logLife/time.Second)),
	}
}

// noteRead records which generation was current at a process's last read of a page. It is safe
// for concurrent use.
func (w *world) noteRead(l *life, p *page, index int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.pages[p].read, l.pages[p].readAt = index, time.Now()
}

func (w *world) lastRead(l *life, p *page) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return l.pages[p].read
}

// lastReadAt returns when a process last read a page.
func (w *world) lastReadAt(l *life, p *page) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return l.pages[p].readAt
}

// A warning is a hard purge that a process has read.
type warning struct {
	seq int64
	at  time.Time // when it was read
}

// learn records that a process has read a hard purge. It is safe for concurrent use.
func (w *world) learn(l *life, p *page, seq int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := l.pages[p]
	if seq > v.purges[len(v.purges)-1].seq {
		v.purges = append(v.purges, warning{seq, time.Now()})
	}
}

// knownPurge returns the latest hard purge that a process must know of. It ignores one that was
// read at this instant: some goroutines may not have it yet.
func (w *world) knownPurge(l *life, p *page) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	var seq int64
	for _, read := range l.pages[p].purges {
		if time.Since(read.at) >= w.pace.margin {
			seq = read.seq
		}
	}
	return seq
}
