package main

import (
	"net/http"
	"strings"
	"testing"
	"unicode"

	"github.com/facetheory/isr/internal/admin"
)

// Text of an origin or a request must not control the terminal that shows it.
func TestExplainedOnTerminal(t *testing.T) {
	const hostile = "a\x1b]0;b\u009b31m\u202ec"
	var out strings.Builder
	err := writeExplained(&out, admin.Explained{
		URL: hostile, Key: hostile, Tags: []string{hostile}, Verdict: "MISS",
		Reasons: []admin.Reason{{Text: hostile}}, Parts: []admin.RequestPart{{Kind: "cookie", Name: hostile, Value: hostile}},
		Fetched: &admin.Fetched{
			Status: 200, Failure: hostile, Header: http.Header{"Vary": {hostile}},
			Obstacles: []admin.Obstacle{{Detail: "vary", What: hostile, Advice: "none"}},
		},
	})
	text := out.String()
	if err != nil || strings.Count(text, "a\uFFFD]0;b\uFFFD31m\uFFFDc") != 9 {
		t.Errorf("%v: got\n%q", err, text)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
		t.Errorf("unprintable characters in\n%q", text)
	}
}
