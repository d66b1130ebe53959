package config

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// Bounds of a file.
const (
	maxFile  = 1 << 20 // bytes
	maxDepth = 24      // of nesting
	maxNodes = 200_000 // visited; the nodes of aliases count at each use
)

// parseYAML returns the only document of a file; nil after an error.
func (d *decoder) parseYAML() *yaml.Node {
	switch {
	case len(d.text) > maxFile:
		d.fail(place{}, "", "the file has %d bytes; at most 1MiB are allowed", len(d.text))
	case !utf8.ValidString(d.text):
		line := 1 + strings.Count(d.text[:invalidAt(d.text)], "\n")
		d.fail(place{line: line, column: 1}, "", "the file is not UTF-8 text; save it as UTF-8")
	case strings.ContainsRune(d.text, 0):
		d.fail(place{}, "", "the file has a NUL byte; it is not a text file")
	}
	if len(d.errs.List) > 0 {
		return nil
	}
	documents := d.documents()
	switch {
	case len(d.errs.List) > 0:
		return nil
	case len(documents) == 0:
		d.fail(place{}, "", "the file is empty; expected at least an origin, like\norigins:\n  site: {url: http://127.0.0.1:3000}")
		return nil
	case len(documents) > 1:
		d.fail(d.at(documents[1]), "", "a second document begins here (---); a file has one")
		return nil
	}
	return documents[0]
}

// documents returns the values of the first two documents that are not empty, and reports an error of syntax. Names
// that are given twice are allowed here: pairs reports all of them.
func (d *decoder) documents() (documents []*yaml.Node) {
	limits := &depthLimit{}
	loader, err := yaml.NewLoader(strings.NewReader(d.text), yaml.WithUniqueKeys(false), yaml.WithPlugin(limits))
	for err == nil && len(documents) < 2 {
		var document yaml.Node
		if err = loader.Load(&document); err == nil && !isEmpty(document.Content[0]) {
			documents = append(documents, document.Content[0])
		}
	}
	switch {
	case err == nil || errors.Is(err, io.EOF):
	case limits.exceeded:
		d.fail(placeOf(err), "", "values are nested more than %d deep", maxDepth)
	default:
		d.syntax(err)
	}
	return documents
}

// isEmpty reports whether a value is not written at all.
func isEmpty(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.Tag == "!!null" && node.Value == "" && node.Style == 0 && node.Anchor == ""
}

// invalidAt returns the index of the first byte that is not UTF-8.
func invalidAt(text string) int {
	for i, r := range text {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(text[i:]); n == 1 {
				return i
			}
		}
	}
	return 0
}

// A depthLimit bounds the nesting of values. It implements [yaml.LoaderLimitsPlugin].
type depthLimit struct{ exceeded bool }

// CheckDepth is called with the depth of nested blocks, and with the depth of nested [] and {} in one.
func (l *depthLimit) CheckDepth(depth int, _ *yaml.DepthContext) error {
	if depth <= maxDepth {
		return nil
	}
	l.exceeded = true
	return errors.New("nested too deep")
}

// CheckAlias is not called: aliases are not expanded. [decoder.visit] bounds their use.
func (l *depthLimit) CheckAlias(int, int) error { return nil }

// syntax reports an error of the YAML parser, with what to do about the usual ones.
func (d *decoder) syntax(err error) {
	var wrong *yaml.LoadError
	if !errors.As(err, &wrong) || wrong.Mark.Line == 0 {
		d.fail(place{}, "", "the file is not YAML: %v", err)
		return
	}
	at, begins := placeOf(err), place{line: wrong.ContextMark.Line, column: wrong.ContextMark.Column, width: 1}
	line, text := []rune(d.line(at.line)), wrong.Message
	switch {
	case strings.HasPrefix(strings.TrimLeft(string(line), " "), "\t"):
		text = "indentation with a tab; YAML allows only spaces"
	case strings.HasPrefix(text, "unknown anchor "):
		name := strings.Trim(strings.TrimSuffix(strings.TrimPrefix(text, "unknown anchor "), " referenced"), "'")
		d.fail(at, "", "no value before this place is anchored as &%s; write the value here, or &%s before the one that is meant", name, name)
		return
	case strings.HasPrefix(string(line), "%"):
		text = "directives are not supported; remove the line"
	case text == "mapping values are not allowed in this context":
		text = "a colon is not allowed here; fields of a map need the same indentation, a name needs a space after its colon, and a value with a colon and a space needs quotes"
	case text == "could not find expected ':'":
		at, text = begins, "expected a name, a colon and a space, like memory: 64MiB"
	case text == "found character that cannot start any token" && at.column <= len(line):
		text = fmt.Sprintf("a value cannot begin with %c; write it in quotes", line[at.column-1])
	case text == "found unexpected end of stream":
		at, text = begins, "the quoted text that begins here has no closing quote"
	case text == "did not find expected ',' or ']'", text == "did not find expected ',' or '}'":
		text = fmt.Sprintf("expected , or %s before here, since line %d has an opening %s", text[len(text)-2:len(text)-1],
			begins.line, map[byte]string{']': "[", '}': "{"}[text[len(text)-2]])
	case text == "did not find expected key", text == "did not find expected '-' indicator":
		text = fmt.Sprintf("what begins in line %d does not continue here; fields of a map, and the - of a list, need the same indentation", begins.line)
	case wrong.ContextMsg != "":
		text = fmt.Sprintf("%s %s, which begins in line %d", text, wrong.ContextMsg, begins.line)
	}
	d.fail(at, "", "the file is not YAML: %s", text)
}

// A place is a position in the file.
type place struct {
	line, column, width int // from 1; in characters
}

// placeOf returns the place of an error of the YAML parser.
func placeOf(err error) place {
	var wrong *yaml.LoadError
	if !errors.As(err, &wrong) {
		return place{}
	}
	return place{line: wrong.Mark.Line, column: wrong.Mark.Column, width: 1}
}

// at returns the place of a node: of a map in block style, the place of its first key.
func (d *decoder) at(node *yaml.Node) place {
	if node.Kind == yaml.MappingNode && node.Style&yaml.FlowStyle == 0 && len(node.Content) > 0 {
		return d.at(node.Content[0])
	}
	text, _, _ := strings.Cut(node.Value, "\n")
	width := utf8.RuneCountInString(text)
	switch {
	case node.Kind == yaml.AliasNode:
		width++ // *
	case node.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0:
		width += 2
	case node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		width = 1
	}
	return place{line: node.Line, column: node.Column, width: max(width, 1)}
}

// maxExcerpt is how many characters of a line are shown.
const maxExcerpt = 100

// excerpt returns the line of a place, and a caret below its column.
func (d *decoder) excerpt(at place) string {
	if at.line < 1 {
		return ""
	}
	line := []rune(d.redact(d.line(at.line)))
	for i, r := range line {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == 0x2028 || r == 0x2029 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			line[i] = ' ' // does not move the cursor of a terminal, nor reorder what is shown
		}
	}
	column := min(max(at.column, 1), len(line)+1)
	start := 0
	if column > maxExcerpt-20 {
		start = column - 20
	}
	shown := line[start:min(len(line), start+maxExcerpt)]
	width := min(max(at.width, 1), max(len(shown)-(column-1-start), 1))
	number := fmt.Sprintf("%5d", at.line)
	return fmt.Sprintf("%s | %s\n      | %s%s", number, strings.TrimRight(string(shown), " "),
		strings.Repeat(" ", column-1-start), strings.Repeat("^", width))
}

// line returns a line of the file, from 1.
func (d *decoder) line(n int) string {
	if d.lines == nil {
		d.lines = strings.Split(strings.ReplaceAll(d.text, "\r\n", "\n"), "\n")
	}
	if n < 1 || n > len(d.lines) {
		return ""
	}
	return strings.TrimSuffix(d.lines[n-1], "\r")
}

// resolve returns the value that a node stands for: what an alias names. It is nil after an error.
func (d *decoder) resolve(node *yaml.Node, path string) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Style&yaml.TaggedStyle != 0 {
		d.fail(d.at(node), path, "the tag %s is not supported; the field determines the type of its value", node.ShortTag())
		return nil
	}
	return node
}
