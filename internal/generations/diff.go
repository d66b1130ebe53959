package generations

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

	"github.com/facetheory/isr/internal/bodies"
	"github.com/facetheory/isr/store"
)

const (
	// maxDiffBody is the size in bytes of the largest body that is compared.
	maxDiffBody = 1 << 20
	// longLine is the length in bytes from which lines of markup are broken.
	longLine = 500
)

// A Diff describes the changes from one generation of a page to another.
type Diff struct {
	From, To Version
	Fields   []Field // that differ, sorted by name
	Body     string  // a unified diff of the bodies; empty if they are equal, or were not compared
	Note     string  // why bodies were not compared, or how; usually empty
}

// A Field is an attribute, or a header field ("header content-type"), that differs. A side without it is empty.
type Field struct{ Name, From, To string }

// Diff compares two generations of a page: status, header fields, tags and windows, and the bodies, if both are text
// of at most 1 MiB. Long lines of markup are broken between tags. Each generation is named by its id or an unambiguous
// prefix of it; an empty from is the generation before the current one, an empty to is the current one. Errors wrap
// store.ErrNoVersion.
func (op *Operator) Diff(ctx context.Context, k store.Key, from, to string) (Diff, error) {
	d, err := op.diff(ctx, k, from, to)
	if err != nil {
		return Diff{}, fmt.Errorf("comparing generations of %s: %w", k, err)
	}
	return d, nil
}

func (op *Operator) diff(ctx context.Context, k store.Key, from, to string) (d Diff, err error) {
	versions, err := op.Versions(ctx, k)
	if err != nil {
		return Diff{}, err
	}
	if d.From, err = findOr(versions, from, previous); err != nil {
		return Diff{}, err
	}
	if d.To, err = findOr(versions, to, current); err != nil {
		return Diff{}, err
	}
	return op.compare(ctx, d)
}

// DiffQuarantined compares the current generation of a page with the one in quarantine, as Diff does. Errors are
// Quarantined's, and wrap store.ErrNoVersion if the page has no current generation.
func (op *Operator) DiffQuarantined(ctx context.Context, k store.Key) (Diff, error) {
	q, err := op.Quarantined(ctx, k)
	if err != nil {
		return Diff{}, err
	}
	versions, err := op.Versions(ctx, k)
	if err != nil {
		return Diff{}, err
	}
	d := Diff{To: Version{Entry: q.Entry}}
	if d.From, err = current(versions); err != nil {
		return Diff{}, fmt.Errorf("comparing the quarantined generation of %s: %w", k, err)
	}
	return op.compare(ctx, d)
}

// compare completes a diff of two generations.
func (op *Operator) compare(ctx context.Context, d Diff) (Diff, error) {
	err := op.compareBodies(ctx, &d) // which completes entries of other services
	d.Fields = compareFields(&d.From.Entry, &d.To.Entry)
	return d, err
}

func compareFields(from, to *store.Entry) []Field {
	a, b := comparedFields(from), comparedFields(to)
	names := slices.Collect(maps.Keys(a))
	names = slices.AppendSeq(names, maps.Keys(b))
	slices.Sort(names)
	var fields []Field
	for _, name := range slices.Compact(names) {
		if a[name] != b[name] {
			fields = append(fields, Field{Name: name, From: a[name], To: b[name]})
		}
	}
	return fields
}

// comparedFields returns the attributes of an entry that a diff compares. It omits those that differ in every
// generation.
func comparedFields(e *store.Entry) map[string]string {
	fields := map[string]string{
		"status":        strconv.Itoa(e.Status),
		"route":         e.Route,
		"tags":          strings.Join(e.Tags, ", "),
		"stale":         e.Stale.String(),
		"body sha256":   e.SHA256,
		"body bytes":    strconv.FormatInt(e.Length, 10),
		"another's row": strconv.FormatBool(e.Foreign),
	}
	for name, values := range lasting(e.Header) {
		fields["header "+strings.ToLower(name)] = strings.Join(values, ", ")
	}
	return fields
}

// compareBodies compares the bodies, if they are small enough and text.
func (op *Operator) compareBodies(ctx context.Context, d *Diff) error {
	if d.From.SHA256 != "" && d.From.SHA256 == d.To.SHA256 {
		return nil
	}
	if max(d.From.Length, d.To.Length) > maxDiffBody {
		d.Note = fmt.Sprintf("bodies of more than %d bytes are not compared", maxDiffBody)
		return nil
	}
	var content [2][]byte
	for i, e := range []*store.Entry{&d.From.Entry, &d.To.Entry} {
		var err error
		content[i], err = op.o.ReadBody(ctx, e)
		switch {
		case errors.Is(err, bodies.ErrMissing):
			d.Note = fmt.Sprintf("the body of %s is missing or damaged", e.GenerationID)
			return nil
		case errors.Is(err, bodies.ErrTooLarge):
			d.Note = fmt.Sprintf("bodies of more than %d bytes are not compared", op.o.MaxBody)
			return nil
		case err != nil:
			return err
		}
	}
	if !readable(content[0]) || !readable(content[1]) {
		d.Note = "at least one of the bodies is not text"
		return nil
	}
	from, to := string(content[0]), string(content[1])
	if a, b := breakMarkup(from), breakMarkup(to); len(a) != len(from) || len(b) != len(to) {
		from, to, d.Note = a, b, "long lines are broken between tags"
	}
	var err error
	d.Body, err = udiff.ToUnified(d.From.GenerationID, d.To.GenerationID, from, udiff.Lines(from, to), udiff.DefaultContextLines)
	return err
}

// readable reports whether a body is text.
func readable(body []byte) bool {
	return utf8.Valid(body) && !bytes.ContainsRune(body, 0)
}

// breakMarkup inserts line breaks between the tags of long lines, such as the lines of minified pages.
func breakMarkup(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if len(line) > longLine {
			line = strings.ReplaceAll(line, "><", ">\n<")
		}
		b.WriteString(line)
	}
	return b.String()
}
