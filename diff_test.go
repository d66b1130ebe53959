package isr_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

func TestDiff(t *testing.T) {
	long := strings.Repeat("<p>word</p>", 100)
	for _, tt := range []struct {
		name     string
		from, to string // bodies
		want     string // of the diff's body
		note     string
	}{
		{"the same", "a\nb\n", "a\nb\n", "", ""},
		{"a line", "a\nb\nc\n", "a\nB\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", ""},
		{"minified", long + "<p>one</p>" + long, long + "<p>two</p>" + long, "-<p>one</p>\n+<p>two</p>\n", "long lines are broken between tags"},
		{"control characters", "a\n", "\x1b[2Ja\n", "-a\n+\x1b[2Ja\n", ""},
		{"an image", "\x89PNG\x00", "\x89PNG\x01", "", "is not text"},
		{"too long", "x", strings.Repeat("x", 1<<20+1), "", "more than 1048576 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				site.answers(func(w http.ResponseWriter, _ *http.Request, n int64) {
					w.Header().Set("Cache-Control", "public, max-age=60, stale-while-revalidate=86400")
					w.Header().Set("Content-Type", "text/html; charset=utf-8")
					fmt.Fprint(w, []string{tt.from, tt.to}[n-1])
				})
				p := tb.peer("a", withHistory, site, nil)
				p.regenerate(t, 2)
				versions := p.versions(t)
				oldest := versions[len(versions)-1] // the same one, if nothing changed
				d, err := p.Diff(t.Context(), page, oldest.GenerationID, versions[0].GenerationID)
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(d.Body, tt.want) || tt.want == "" && d.Body != "" || !strings.Contains(d.Note, tt.note) || tt.note == "" && d.Note != "" {
					t.Errorf("%q, and a note %q:\n%s", tt.name, d.Note, d.Body)
				}
				if strings.ContainsRune(d.String(), 0x1b) {
					t.Errorf("the text steers terminals: %q", d.String())
				}
				if same := tt.from == tt.to; same != (len(d.Fields) == 0) {
					t.Errorf("fields: %+v", d.Fields)
				}
			})
		})
	}
}

func TestDiffOfFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(func(w http.ResponseWriter, _ *http.Request, n int64) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("Cache-Control", "public, max-age=60, stale-while-revalidate=86400")
			if n == 2 {
				w.Header().Set("Surrogate-Key", "news front")
				w.Header().Set("Content-Language", "de")
				w.WriteHeader(http.StatusNotFound)
			}
			fmt.Fprint(w, "the same")
		})
		p := tb.peer("a", withHistory, site, nil)
		p.regenerate(t, 2)
		versions := p.versions(t)
		d, err := p.Diff(t.Context(), page, versions[1].GenerationID, versions[0].GenerationID)
		if err != nil {
			t.Fatal(err)
		}
		want := []isr.FieldDiff{
			{Name: "header content-language", To: "de"},
			{Name: "header surrogate-key", To: "news front"},
			{Name: "status", From: "200", To: "404"},
			{Name: "tags", To: "front, news"},
		}
		if diff := cmp.Diff(want, d.Fields); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		text := d.String()
		for _, line := range []string{
			fmt.Sprintf("from %s, 2000-01-01 00:00:01\n", versions[1].GenerationID),
			fmt.Sprintf("to   %s, 2000-01-01 00:00:03\n", versions[0].GenerationID),
			"status: 200 -> 404\n", "tags: (none) -> front, news\n",
		} {
			if !strings.Contains(text, line) {
				t.Errorf("there is no line %q in:\n%s", line, text)
			}
		}
	})
}

func TestDiffWithoutVersionsOrBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		p := tb.peer("a", withHistory, newSite(), nil)
		p.regenerate(t, 2)
		versions := p.versions(t)
		last, err := p.Diff(t.Context(), page, "", "")
		if err != nil || last.From.GenerationID != versions[1].GenerationID || last.To.GenerationID != versions[0].GenerationID {
			t.Errorf("by default %s is compared with %s, %v; want the last two of %v", last.From.GenerationID, last.To.GenerationID, err, versions)
		}
		for _, named := range []string{"2000", "1999"} { // ambiguous, not kept
			if _, err := p.Diff(t.Context(), page, named, versions[0].GenerationID); !errors.Is(err, store.ErrNoVersion) {
				t.Errorf("%q: %v", named, err)
			}
		}
		if err := tb.bodies.Delete(t.Context(), versions[1].BodyKey); err != nil {
			t.Fatal(err)
		}
		d, err := p.Diff(t.Context(), page, versions[1].GenerationID, versions[0].GenerationID)
		if err != nil || d.Body != "" || !strings.Contains(d.Note, versions[1].GenerationID) {
			t.Errorf("%+v, %v", d, err)
		}
	})
}
