package isr

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

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
	// Fields are the attributes and header fields that differ, sorted by name.
	Fields []FieldDiff
	// Body is a unified diff of the bodies; empty if they are equal, or were not
	// compared.
	Body string
	// Note says why bodies were not compared, or how; usually empty.
	Note string
}

// A FieldDiff is an attribute, or a header field ("header content-type"), that differs. A
// side without it is empty.
type FieldDiff struct {
	Name, From, To string
}

// Diff compares two generations of a page: status, header fields, tags and windows, and the
// bodies, if both are text of at most 1 MiB. Long lines of markup are broken between tags.
// Each generation is named by its id or an unambiguous prefix of it; an empty from is the
// generation before the current one, an empty to is the current one.
//
// Errors wrap [store.ErrNoVersion] if a generation is not kept or its prefix is ambiguous;
// other errors are those of the stores.
func (c *Cache) Diff(ctx context.Context, k store.Key, from, to string) (Diff, error) {
	d, err := c.diff(ctx, k, from, to)
	if err != nil {
		return Diff{}, fmt.Errorf("comparing generations of %s: %w", k, err)
	}
	return d, nil
}

func (c *Cache) diff(ctx context.Context, k store.Key, from, to string) (d Diff, err error) {
	versions, err := c.Versions(ctx, k)
	if err != nil {
		return Diff{}, err
	}
	if from == "" {
		d.From, err = previous(versions)
	} else {
		d.From, err = find(versions, from)
	}
	if err != nil {
		return Diff{}, err
	}
	if to == "" {
		d.To, err = current(versions)
	} else {
		d.To, err = find(versions, to)
	}
	if err != nil {
		return Diff{}, err
	}
	d.Fields = diffFields(&d.From.Entry, &d.To.Entry)
	return d, c.diffBodies(ctx, &d)
}

func diffFields(from, to *store.Entry) []FieldDiff {
	a, b := comparedFields(from), comparedFields(to)
	names := slices.Collect(maps.Keys(a))
	names = slices.AppendSeq(names, maps.Keys(b))
	slices.Sort(names)
	var fields []FieldDiff
	for _, name := range slices.Compact(names) {
		if a[name] != b[name] {
			fields = append(fields, FieldDiff{Name: name, From: a[name], To: b[name]})
		}
	}
	return fields
}

// comparedFields returns the attributes of an entry that a diff compares. It omits those
// that differ in every generation.
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
	for name, values := range e.Header {
		fields["header "+strings.ToLower(name)] = strings.Join(values, ", ")
	}
	return fields
}

// diffBodies compares the bodies, if they are small enough and text.
func (c *Cache) diffBodies(ctx context.Context, d *Diff) error {
	if d.From.SHA256 != "" && d.From.SHA256 == d.To.SHA256 {
		return nil
	}
	if max(d.From.Length, d.To.Length) > maxDiffBody {
		d.Note = fmt.Sprintf("bodies of more than %d bytes are not compared", maxDiffBody)
		return nil
	}
	var bodies [2][]byte
	for i, e := range []*store.Entry{&d.From.Entry, &d.To.Entry} {
		var err error
		bodies[i], err = c.readBody(ctx, e)
		switch {
		case errors.Is(err, ErrNoBody):
			d.Note = fmt.Sprintf("the body of %s is missing or damaged", e.GenerationID)
			return nil
		case errors.Is(err, errBeyondLimit):
			d.Note = fmt.Sprintf("bodies of more than %d bytes are not compared", c.cfg.MaxBody)
			return nil
		case err != nil:
			return err
		}
	}
	if !readable(bodies[0]) || !readable(bodies[1]) {
		d.Note = "at least one of the bodies is not text"
		return nil
	}
	from, to := string(bodies[0]), string(bodies[1])
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

// breakMarkup inserts line breaks between the tags of long lines, as of minified pages.
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

// String formats the diff for a terminal. Control characters are replaced by U+FFFD.
func (d Diff) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "from %s, %s\n", d.From.GenerationID, d.From.GeneratedAt.UTC().Format("2006-01-02 15:04:05"))
	fmt.Fprintf(&b, "to   %s, %s\n", d.To.GenerationID, d.To.GeneratedAt.UTC().Format("2006-01-02 15:04:05"))
	for _, f := range d.Fields {
		fmt.Fprintf(&b, "%s: %s -> %s\n", f.Name, cmp.Or(f.From, "(none)"), cmp.Or(f.To, "(none)"))
	}
	if d.Note != "" {
		fmt.Fprintf(&b, "(%s)\n", d.Note)
	}
	if d.Body != "" {
		b.WriteString("\n" + d.Body)
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return unicode.ReplacementChar
		}
		return r
	}, b.String())
}
