package simulator

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// damage does what no process does: it trims expired rows of the log, loses a row or
// makes one unreadable, adds one behind the end, or loses the body of a page.
func (w *world) damage() {
	if w.rng.IntN(3) == 0 {
		w.loseBody(w.somePage())
		if w.rng.IntN(2) == 0 {
			w.crash(pick(w.rng, w.nodes)) // so that a process needs it
		}
		return
	}
	w.damaged = true
	if w.trim() > 0 {
		return
	}
	switch w.rng.IntN(4) {
	case 0:
		if seq := w.someSequence(); seq > 0 {
			w.loseRow(seq)
		}
	case 1:
		// A gap, and no other change of the page.
		w.purge(w.keptPage())
		w.loseRow(w.seq)
		w.purgePages(nil, false)
	case 2:
		if seq := w.someSequence(); seq > 0 {
			w.log("row %d of the log becomes unreadable", seq)
			w.putLog(seq, text("all"))
		}
	default:
		seq := w.seq + 1 + int64(w.rng.IntN(3))
		w.log("a row appears behind the end of the log: %d", seq)
		w.counts["log row behind SEQ"]++
		w.putLog(seq, text("stray")) // unreadable: a readable row would count as a change
	}
}

func (w *world) loseRow(seq int64) {
	w.log("row %d of the log is lost", seq)
	w.counts["log row lost"]++
	w.external(func() error { return w.deleteRow("PURGE", logKey(seq)) })
}

// someSequence returns one of the log's last sequences; 0 if the log is empty.
func (w *world) someSequence() int64 {
	return w.seq - int64(w.rng.IntN(int(min(max(w.seq, 1), 3))))
}

// trim deletes the expired rows of the log, as DynamoDB's TTL does, and returns their
// number.
func (w *world) trim() (trimmed int) {
	now := trueNow()
	var rows partition
	w.outside.do(func() { rows = w.readPartition("PURGE") })
	for _, sk := range slices.Sorted(maps.Keys(rows)) {
		if end := numberOf(rows[sk], "ttl"); end == 0 || end > now {
			continue
		}
		trimmed++
		w.external(func() error { return w.deleteRow("PURGE", sk) })
	}
	if trimmed > 0 {
		w.log("the log is trimmed by %d rows", trimmed)
		w.counts["log row trimmed"] += trimmed
	}
	return trimmed
}

func (w *world) putLog(seq int64, targets types.AttributeValue) {
	row := item{"pk": text("PURGE"), "sk": text(logKey(seq)), "id": text(rand.Text()), "targets": targets, "ttl": number(trueNow() + 3600)}
	w.external(func() error {
		_, err := w.engine.PutItem(context.Background(), &dynamodb.PutItemInput{TableName: &w.table, Item: row})
		return err
	})
}

func (w *world) deleteRow(pk, sk string) error {
	_, err := w.engine.DeleteItem(context.Background(), &dynamodb.DeleteItemInput{TableName: aws.String(w.table), Key: item{"pk": text(pk), "sk": text(sk)}})
	return err
}
