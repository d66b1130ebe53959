package isr

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

	"github.com/facetheory/isr/internal/bodies"
	"github.com/facetheory/isr/internal/fill"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

// A Version is a generation of a page that can be inspected, compared and, if it is kept,
// made current again.
type Version struct {
	store.Entry
	// Current: this is the entry that is served.
	Current bool
	// published orders versions by when they first became current: it is the fence of
	// that publish. A rollback gives the entry another one.
	published int64
}

// Versions returns the generations of a page that are kept (see Route.History), and the
// current one even if it is not kept, most recently published first.
func (c *Cache) Versions(ctx context.Context, k store.Key) ([]Version, error) {
	pk, err := c.partition(k)
	if err != nil {
		return nil, err
	}
	kept, err := c.meta.Versions(ctx, pk)
	if err != nil {
		return nil, fmt.Errorf("reading the versions of %s: %w", k, err)
	}
	// Read after the versions, so that it includes what was published in between.
	rec, _, err := c.node.Read(ctx, k, pk)
	if err != nil {
		return nil, err
	}
	versions := make([]Version, 0, len(kept)+1)
	for _, e := range kept {
		versions = append(versions, Version{Entry: e, published: e.Version})
	}
	if rec.Entry != nil {
		versions = withCurrent(versions, *rec.Entry)
	}
	slices.SortFunc(versions, func(a, b Version) int {
		return cmp.Or(cmp.Compare(b.published, a.published), strings.Compare(b.GenerationID, a.GenerationID))
	})
	return versions, nil
}

// withCurrent marks the current entry among the kept versions, or adds it.
func withCurrent(versions []Version, e store.Entry) []Version {
	current := Version{Entry: e, Current: true, published: e.Version}
	if e.Foreign {
		current.published = math.MaxInt64 // it replaced all of ours
	} else if i := slices.IndexFunc(versions, func(v Version) bool { return v.GenerationID == e.GenerationID }); i >= 0 {
		current.published = versions[i].published
		versions[i] = current
		return versions
	}
	return append(versions, current)
}

// find returns the only version whose generation id starts with prefix. Errors wrap
// ErrNoVersion.
func find(versions []Version, prefix string) (Version, error) {
	var found []Version
	for _, v := range versions {
		switch {
		case prefix == "" || v.GenerationID == "":
		case v.GenerationID == prefix:
			return v, nil
		case strings.HasPrefix(v.GenerationID, prefix):
			found = append(found, v)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return Version{}, fmt.Errorf("generation %q: %w", prefix, store.ErrNoVersion)
	}
	return Version{}, fmt.Errorf("%w: %q matches %d generations, such as %s and %s; give more characters",
		store.ErrNoVersion, prefix, len(found), found[0].GenerationID, found[1].GenerationID)
}

// indexOfCurrent returns the index of the current version, -1 if there is none.
func indexOfCurrent(versions []Version) int {
	return slices.IndexFunc(versions, func(v Version) bool { return v.Current })
}

// current returns the current version. Errors wrap ErrNoVersion.
func current(versions []Version) (Version, error) {
	i := indexOfCurrent(versions)
	if i < 0 {
		return Version{}, fmt.Errorf("%w: the page has no current generation", store.ErrNoVersion)
	}
	return versions[i], nil
}

// previous returns the newest version from before the current one, or from before the
// withdrawn one; without a current one, the newest version. Errors wrap ErrNoVersion.
func previous(versions []Version) (Version, error) {
	at := indexOfCurrent(versions)
	next := at + 1
	if at >= 0 && versions[at].Withdrawn {
		for next < len(versions) && versions[next].BodyKey == versions[at].BodyKey {
			next++
		}
	}
	if next == len(versions) {
		return Version{}, fmt.Errorf("%w: no generation older than the current one is kept", store.ErrNoVersion)
	}
	return versions[next], nil
}

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
// other errors are the stores' own.
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
	err = c.diffBodies(ctx, &d) // which completes entries of other services
	d.Fields = diffFields(&d.From.Entry, &d.To.Entry)
	return d, err
}

// Body returns a generation of a page with its body, without content coding: the one that an
// id or an unambiguous prefix of it names, the current one for an empty text. At most limit
// bytes of the body are read. Errors wrap [store.ErrNoVersion], [ErrNoBody] if the body is
// missing, damaged or larger, or are the stores' own.
func (c *Cache) Body(ctx context.Context, k store.Key, generation string, limit int64) (store.Entry, []byte, error) {
	versions, err := c.Versions(ctx, k)
	if err != nil {
		return store.Entry{}, nil, err
	}
	var v Version
	if generation == "" {
		v, err = current(versions)
	} else {
		v, err = find(versions, generation)
	}
	if err != nil {
		return store.Entry{}, nil, fmt.Errorf("reading a generation of %s: %w", k, err)
	}
	body, err := c.plainBody(ctx, &v.Entry, limit)
	return v.Entry, body, err
}

// QuarantinedBody is Body for the generation of a page that is in quarantine. Errors wrap
// [store.ErrNotQuarantined] if there is none.
func (c *Cache) QuarantinedBody(ctx context.Context, k store.Key, limit int64) (store.Entry, []byte, error) {
	q, err := c.Quarantined(ctx, k)
	if err != nil {
		return store.Entry{}, nil, err
	}
	body, err := c.plainBody(ctx, &q.Entry, limit)
	return q.Entry, body, err
}

// plainBody returns the body of an entry without content coding.
func (c *Cache) plainBody(ctx context.Context, e *store.Entry, limit int64) ([]byte, error) {
	if e.Length > limit {
		return nil, fmt.Errorf("%w that can be shown: %s has %d bytes, at most %d are read", ErrNoBody, e.BodyKey, e.Length, limit)
	}
	body, err := c.reader.ReadStored(ctx, e)
	if errors.Is(err, bodies.ErrTooLarge) {
		return nil, fmt.Errorf("%w that can be shown: %w", ErrNoBody, err)
	}
	if lines := e.Header["Content-Encoding"]; err == nil && httpcache.Decodable(lines) {
		body, err = httpcache.Decode(lines, body, limit)
		if err != nil {
			return nil, fmt.Errorf("%w that can be shown: %w", ErrNoBody, err)
		}
	}
	return body, err
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
	for name, values := range fill.Lasting(e.Header) {
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
	var content [2][]byte
	for i, e := range []*store.Entry{&d.From.Entry, &d.To.Entry} {
		var err error
		content[i], err = c.reader.ReadStored(ctx, e)
		switch {
		case errors.Is(err, ErrNoBody):
			d.Note = fmt.Sprintf("the body of %s is missing or damaged", e.GenerationID)
			return nil
		case errors.Is(err, bodies.ErrTooLarge):
			d.Note = fmt.Sprintf("bodies of more than %d bytes are not compared", c.cfg.MaxBody)
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
