package admin_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/facetheory/isr/internal/admin"
)

func TestDiff(t *testing.T) {
	f := newFixture(t)
	made := f.generations("example.com/", 2)
	d, err := f.client().Diff(t.Context(), admin.Comparison{Target: target("example.com/"), From: made[0].Generation, To: made[1].Generation})
	if err != nil || d.Key != "example.com/" || d.From.Generation != made[0].Generation || d.To.Generation != made[1].Generation || !d.To.Current {
		t.Fatalf("%+v, %v", d, err)
	}
	if !strings.Contains(d.Body, "-render 0 of the page") || !strings.Contains(d.Body, "+render 1 of the page") {
		t.Errorf("the bodies differ by %q", d.Body)
	}
	names := make(map[string]bool)
	for _, field := range d.Fields {
		names[field.Name] = true
	}
	if !names["body sha256"] || names["status"] {
		t.Errorf("the fields that differ: %v", d.Fields)
	}
	for _, want := range []string{"from " + made[0].Generation, "to   " + made[1].Generation, "body sha256: ", "+render 1"} {
		if !strings.Contains(d.String(), want) {
			t.Errorf("the text has no %q: %s", want, d)
		}
	}
	q := url.Values{"key": {"example.com/"}, "from": {made[0].Generation}, "to": {made[0].Generation}}
	if a := f.ask("GET", "/-/diff?"+q.Encode(), ""); a.status != 200 || !strings.Contains(a.text, `"fields":[]`) {
		t.Errorf("of itself: %d %s", a.status, a.text)
	}
}

func TestDiffFails(t *testing.T) {
	f := newFixture(t)
	for path, want := range map[string]string{
		"/-/diff?key=example.com/":                  "no_version",
		"/-/diff?key=example.com/&from=a":           "no_version",
		"/-/diff?from=a&to=b":                       "invalid_request",
		"/-/diff?key=example.com/&from=a&to=b":      "no_version",
		"/-/diff?key=example.com/&from=a&to=b&n=10": "invalid_request",
	} {
		if a := f.ask("GET", path, ""); a.code != want {
			t.Errorf("%s: %d %s; want %s", path, a.status, a.text, want)
		}
	}
}
