package simulator

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// logKey returns the sort key of a row of the log.
func logKey(seq int64) string { return fmt.Sprintf("LOG#%020d", seq) }

// readLog reads the sequence and the keys that its log row names.
func (w *world) readLog() (seq int64, keys []string) {
	row := w.readRow("PURGE", "SEQ")
	seq = numberOf(row, "seq")
	for _, target := range w.readTargets(seq) {
		keys = append(keys, textOf(target, "key"))
	}
	return seq, keys
}

// readTargets reads the targets of a log row.
func (w *world) readTargets(seq int64) (all []item) {
	targets, ok := w.readRow("PURGE", logKey(seq))["targets"].(*types.AttributeValueMemberL)
	if !ok {
		return nil
	}
	for _, target := range targets.Value {
		if m, ok := target.(*types.AttributeValueMemberM); ok {
			all = append(all, m.Value)
		}
	}
	return all
}

// readRow reads one row from the engine.
func (w *world) readRow(pk, sk string) item {
	var out *dynamodb.GetItemOutput
	w.outside.do(func() {
		var err error
		out, err = w.engine.GetItem(context.Background(), &dynamodb.GetItemInput{
			TableName: &w.table, Key: item{"pk": text(pk), "sk": text(sk)}, ConsistentRead: aws.Bool(true),
		})
		if err != nil {
			out = &dynamodb.GetItemOutput{}
			w.violate("the engine responds", "reading %s %s: %v", pk, sk, err)
		}
	})
	return out.Item
}

// noteSequence checks the log after a call that may append to it: the sequence grows by
// one at a time.
func (w *world) noteSequence(c *call) {
	w.seqBefore = w.seq
	if !c.logged {
		return
	}
	seq := numberOf(w.readRow("PURGE", "SEQ"), "seq")
	if seq < w.seq || seq > w.seq+1 {
		w.violate("the sequence grows by one", "%s moved it from %d to %d", c.life.name, w.seq, seq)
	}
	moved := seq != w.seq
	w.mu.Lock()
	w.seq = seq
	w.mu.Unlock()
	w.noteReadable()
	if moved {
		w.log("  the log: %d", seq)
		w.notePurges(c, seq)
	}
}
