package simulator

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// externalAttributes are attributes of META that other services own.
func externalAttributes() []string { return []string{"note"} }

// writeExternally simulates another service that writes META by the reference documents: it
// updates the row with new content, replaces it, or sets an attribute of its own.
func (w *world) writeExternally(p *page) {
	switch w.rng.IntN(3) {
	case 0:
		w.replaceExternally(p)
	case 1:
		w.updateExternally(p)
	default:
		w.annotate(p)
	}
	w.look(p, nil)
}

// externalContent returns content of another service, whose body key is not one of isr's.
// The clock of such a service may be far off.
func (w *world) externalContent(p *page) item {
	p.externals++
	content := fmt.Sprintf("%s@external%d", p.path, p.externals)
	key := "external/" + rand.Text()
	if err := w.shelf.put(key, bodyOf(content)); err != nil {
		w.violate("the engine responds", "%v", err)
	}
	at := time.Now()
	if w.rng.IntN(6) == 0 {
		at = at.Add(w.pace.of(10 * time.Minute))
	}
	return item{
		"s3_key": text(key), "generated_at": number(at.Unix()), "revalidate_seconds": number(int64(w.pace.seconds(time.Duration(5+w.rng.IntN(30))*time.Second) / time.Second)),
		"etag": text(etagOf(content)),
	}
}

// replaceExternally puts a new row, and so deletes isr's attributes.
func (w *world) replaceExternally(p *page) {
	row := w.externalContent(p)
	row["pk"], row["sk"] = text(p.pk), text("META")
	w.log("another service replaces META of %s", p.path)
	w.external(func() error {
		_, err := w.engine.PutItem(context.Background(), &dynamodb.PutItemInput{TableName: &w.table, Item: row})
		return err
	})
}

// updateExternally sets the attributes of the reference, and keeps isr's.
func (w *world) updateExternally(p *page) {
	row := w.externalContent(p)
	w.log("another service updates META of %s", p.path)
	w.external(func() error {
		_, err := w.engine.UpdateItem(context.Background(), &dynamodb.UpdateItemInput{
			TableName: &w.table, Key: item{"pk": text(p.pk), "sk": text("META")},
			UpdateExpression:          aws.String("SET s3_key = :s, generated_at = :g, revalidate_seconds = :r, etag = :e"),
			ExpressionAttributeValues: item{":s": row["s3_key"], ":g": row["generated_at"], ":r": row["revalidate_seconds"], ":e": row["etag"]},
		})
		return err
	})
}

// annotate sets an attribute of another service on an existing row.
func (w *world) annotate(p *page) {
	if p.current() == nil {
		return
	}
	note := fmt.Sprint("note ", w.step)
	w.log("another service annotates META of %s", p.path)
	w.external(func() error {
		_, err := w.engine.UpdateItem(context.Background(), &dynamodb.UpdateItemInput{
			TableName: &w.table, Key: item{"pk": text(p.pk), "sk": text("META")},
			UpdateExpression:          aws.String("SET note = :n"),
			ExpressionAttributeValues: item{":n": text(note)},
		})
		return err
	})
}

// external executes a write that no node requested.
func (w *world) external(do func() error) {
	w.tears.mend()
	w.outside.do(func() {
		if err := do(); err != nil {
			w.violate("the engine responds", "%v", err)
		}
	})
}
