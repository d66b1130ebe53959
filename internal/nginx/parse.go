package nginx

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Bounds of what is read.
const (
	maxFiles      = 200
	maxBytes      = 4 << 20 // of all files
	maxDirectives = 50_000
	maxDepth      = 32 // of blocks and of includes
)

// A Directive is one directive of a configuration, with the directives of its block.
type Directive struct {
	Name  string
	Args  []string
	Block []*Directive // of included files too
	// File and Line are where it begins.
	File string
	Line int
}

// at returns the place of a directive.
func (d *Directive) at() string { return fmt.Sprintf("%s:%d", d.File, d.Line) }

// text returns the directive as it is written, without its block.
func (d *Directive) text() string { return strings.Join(append([]string{d.Name}, d.Args...), " ") }

// Read reads a configuration file and the files that it includes. Names of included files are relative
// to the folder of the first file, as nginx has it by default.
func Read(path string) ([]*Directive, error) {
	r := &reader{root: filepath.Dir(path)}
	return r.file(path, 0)
}

// A reader reads the files of a configuration.
type reader struct {
	root                     string
	files, bytes, directives int
}

func (r *reader) file(path string, depth int) ([]*Directive, error) {
	if r.files++; r.files > maxFiles {
		return nil, fmt.Errorf("%s: the configuration has more than %d files", path, maxFiles)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // only read
	text, err := io.ReadAll(io.LimitReader(file, int64(maxBytes-r.bytes+1)))
	if err != nil {
		return nil, err
	}
	if r.bytes += len(text); r.bytes > maxBytes {
		return nil, fmt.Errorf("%s: the configuration has more than %d MiB", path, maxBytes>>20)
	}
	p := &parser{reader: r, file: path, text: string(text), line: 1}
	directives, err := p.block(depth)
	if err == nil && p.closed {
		err = p.errorf("unexpected }")
	}
	return directives, err
}

// include returns the directives of the files that an include directive names.
func (r *reader) include(d *Directive, depth int) ([]*Directive, error) {
	if len(d.Args) != 1 {
		return nil, fmt.Errorf("%s: include needs one file", d.at())
	}
	pattern := d.Args[0]
	if !filepath.IsAbs(pattern) {
		pattern = filepath.Join(r.root, pattern)
	}
	names, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("%s: include %s: %w", d.at(), d.Args[0], err)
	}
	if len(names) == 0 && !strings.ContainsAny(d.Args[0], "*?[") {
		return nil, fmt.Errorf("%s: the included file %s does not exist; its directives may change what is cached", d.at(), pattern)
	}
	slices.Sort(names)
	var all []*Directive
	for _, name := range names {
		some, err := r.file(name, depth)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// A parser parses one file: words, which may be quoted, ended by a semicolon or a block.
type parser struct {
	*reader
	file   string
	text   string
	at     int
	line   int
	closed bool // the last block was ended by }
}

// errUnended is the end of the file in the middle of a directive.
var errUnended = errors.New("the file ends in the middle of a directive")

func (p *parser) errorf(format string, args ...any) error {
	return fmt.Errorf("%s:%d: %w", p.file, p.line, fmt.Errorf(format, args...))
}

// block parses directives up to } or the end of the file.
func (p *parser) block(depth int) ([]*Directive, error) {
	if depth > maxDepth {
		return nil, p.errorf("blocks and includes are nested more than %d deep", maxDepth)
	}
	var all []*Directive
	for {
		d, end, err := p.directive()
		if err != nil || d == nil {
			p.closed = end == '}'
			return all, err
		}
		if p.directives++; p.directives > maxDirectives {
			return nil, p.errorf("the configuration has more than %d directives", maxDirectives)
		}
		if end == '{' {
			if err := p.inner(d, depth); err != nil {
				return nil, err
			}
		}
		if d.Name != "include" {
			all = append(all, d)
			continue
		}
		included, err := p.include(d, depth+1)
		if err != nil {
			return nil, err
		}
		all = append(all, included...)
	}
}

// inner parses the block of a directive. The block of a script in Lua is skipped: it has no directives.
func (p *parser) inner(d *Directive, depth int) (err error) {
	if strings.HasSuffix(d.Name, "_by_lua_block") {
		return p.skipBlock()
	}
	if d.Block, err = p.block(depth + 1); err != nil {
		return err
	}
	if !p.closed {
		return p.errorf("the block of %s in line %d has no }", d.Name, d.Line)
	}
	p.closed = false
	return nil
}

func (p *parser) skipBlock() error {
	for depth := 1; p.at < len(p.text); p.at++ {
		switch p.text[p.at] {
		case '\n':
			p.line++
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				p.at++
				return nil
			}
		}
	}
	return p.errorf("%w", errUnended)
}

// directive parses one directive, without its block. end is ';' or '{', or without a directive '}' or 0 at the end of
// the file.
func (p *parser) directive() (d *Directive, end byte, err error) {
	for {
		p.space()
		if p.at == len(p.text) {
			if d != nil {
				return nil, 0, p.errorf("%w", errUnended)
			}
			return nil, 0, nil
		}
		switch c := p.text[p.at]; {
		case c == ';' || c == '{' || c == '}' && d == nil:
			p.at++
			if d == nil && c != '}' {
				return nil, 0, p.errorf("unexpected %c", c)
			}
			return d, c, nil
		case c == '}':
			return nil, 0, p.errorf("unexpected }; the directive %s needs a semicolon", d.Name)
		}
		line := p.line
		word, err := p.word()
		if err != nil {
			return nil, 0, err
		}
		if d == nil {
			d = &Directive{Name: word, File: p.file, Line: line}
		} else {
			d.Args = append(d.Args, word)
		}
	}
}

// space skips white space and comments.
func (p *parser) space() {
	for ; p.at < len(p.text); p.at++ {
		switch p.text[p.at] {
		case '\n':
			p.line++
		case ' ', '\t', '\r':
		case '#':
			for p.at+1 < len(p.text) && p.text[p.at+1] != '\n' {
				p.at++
			}
		default:
			return
		}
	}
}

// word parses a word, quoted or not. A variable in braces, ${name}, does not begin a block.
func (p *parser) word() (string, error) {
	var b strings.Builder
	quote := p.text[p.at]
	if quote == '"' || quote == '\'' {
		p.at++
	} else {
		quote = 0
	}
	for ; p.at < len(p.text); p.at++ {
		c := p.text[p.at]
		switch {
		case c == '\\' && p.at+1 < len(p.text):
			p.at++
			if next := p.text[p.at]; !strings.ContainsRune(`"'\`+" ;{}", rune(next)) {
				b.WriteByte(c) // a backslash of a regular expression
			}
			c = p.text[p.at]
		case quote != 0 && c == quote:
			p.at++
			return b.String(), nil
		case quote == 0 && c == '{' && strings.HasSuffix(b.String(), "$"):
			end := strings.IndexByte(p.text[p.at:], '}')
			if end < 0 {
				return "", p.errorf("%w", errUnended)
			}
			b.WriteString(p.text[p.at : p.at+end])
			p.at += end
			c = '}'
		case quote == 0 && strings.IndexByte(" \t\r\n;{}", c) >= 0:
			return b.String(), nil
		}
		if c == '\n' {
			p.line++
		}
		b.WriteByte(c)
	}
	if quote != 0 {
		return "", p.errorf("a quoted text has no end")
	}
	return b.String(), nil
}
