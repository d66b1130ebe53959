package config

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a file.
const (
	maxFile  = 1 << 20 // bytes
	maxDepth = 24      // of nesting
	maxNodes = 200_000 // visited; the nodes of aliases count at each use
	maxKeys  = 15_000  // of maps: the parser copies a map for each of its keys
)

// parseYAML returns the only document of a file. The parser of YAML is recursive: what it
// gets is bounded in size and depth before.
func (d *decoder) parseYAML() ast.Node {
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
	tokens := lexer.Tokenize(d.text)
	if !d.checkDepth(tokens) {
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		d.syntax(err)
		return nil
	}
	var bodies []ast.Node
	for _, doc := range file.Docs {
		if doc.Body != nil && doc.Body.Type() != ast.CommentType {
			bodies = append(bodies, doc.Body)
		}
	}
	switch len(bodies) {
	case 0:
		d.fail(place{}, "", "the file is empty; expected at least an origin, like\norigins:\n  site: {url: http://127.0.0.1:3000}")
		return nil
	case 1:
		return bodies[0]
	}
	d.fail(d.at(bodies[1]), "", "a second document begins here (---); a file has one")
	return nil
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

// checkDepth bounds the number of fields, and the nesting of flow collections, and of what nests within a line.
// Nesting by indentation is bounded by the size of the file: each level needs a longer line.
func (d *decoder) checkDepth(tokens token.Tokens) bool {
	flow, line, inLine, keys := 0, 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, inLine = t.Position.Line, 0
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType:
			inLine++
		case token.MappingValueType:
			keys++
		}
		if keys > maxKeys {
			d.fail(placeOf(t), "", "the file has more than %d fields", maxKeys)
			return false
		}
		if flow > maxDepth || flow == 0 && inLine > maxDepth {
			d.fail(placeOf(t), "", "values are nested more than %d deep", maxDepth)
			return false
		}
	}
	return true
}

// syntax reports an error of the YAML parser.
func (d *decoder) syntax(err error) {
	var syntax *yaml.SyntaxError
	if !errors.As(err, &syntax) || syntax.Token == nil {
		d.fail(place{}, "", "the file is not YAML: %v", err)
		return
	}
	at, text := placeOf(syntax.Token), syntax.Message
	if line := d.line(at.line); strings.HasPrefix(strings.TrimLeft(line, " "), "\t") {
		text = "indentation with a tab; YAML allows only spaces"
	}
	d.fail(at, "", "the file is not YAML: %s", text)
}

// A place is a position in the file.
type place struct {
	line, column, width int // from 1; in characters
}

func placeOf(t *token.Token) place {
	if t == nil || t.Position == nil {
		return place{}
	}
	return place{line: t.Position.Line, column: t.Position.Column, width: max(utf8.RuneCountInString(strings.TrimSpace(t.Value)), 1)}
}

// at returns the place of a node: of a map in block style, the place of its first key.
func (d *decoder) at(node ast.Node) place {
	switch n := node.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return placeOf(n.Values[0].Key.GetToken())
		}
		return placeOf(n.Start)
	case *ast.MappingValueNode:
		return placeOf(n.Key.GetToken())
	case *ast.LiteralNode:
		return placeOf(n.Start)
	}
	return placeOf(node.GetToken())
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

// anchors returns the anchored values of a document, by name.
func (d *decoder) findAnchors(root ast.Node) {
	d.anchors = make(map[string]ast.Node)
	ast.Walk(anchorVisitor(d.anchors), root)
}

type anchorVisitor map[string]ast.Node

// Visit implements [ast.Visitor].
func (v anchorVisitor) Visit(node ast.Node) ast.Visitor {
	if a, ok := node.(*ast.AnchorNode); ok {
		v[a.Name.GetToken().Value] = a.Value
	}
	return v
}

// resolve returns the value that a node stands for: what an anchor or alias names. It is nil
// after an error.
func (d *decoder) resolve(node ast.Node, path string) ast.Node {
	for range maxDepth {
		switch n := node.(type) {
		case *ast.AnchorNode:
			node = n.Value
		case *ast.AliasNode:
			name := n.Value.GetToken().Value
			value, ok := d.anchors[name]
			if !ok {
				d.fail(d.at(n), path, "no value is anchored as &%s in this file", name)
				return nil
			}
			node = value
		case *ast.TagNode:
			d.fail(d.at(n), path, "the tag %s is not supported; the field determines the type of its value", n.Start.Value)
			return nil
		default:
			return node
		}
	}
	d.fail(d.at(node), path, "aliases refer to each other")
	return nil
}
