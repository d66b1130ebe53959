package expr

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// Limits of one expression.
const (
	maxText      = 4096 // bytes
	maxOperators = 300
	maxIn        = 100                    // operands to the right of IN
	maxPath      = 32                     // elements of a path
	maxNesting   = 2 * (maxOperators + 1) // every operator may be parenthesized
	maxIndex     = 1<<31 - 1
)

// Parse parses text as an expression of the given kind.
func Parse(kind Kind, text string) (*Parsed, error) {
	p := &parser{out: &Parsed{kind: kind}, text: text}
	if err := p.parse(); err != nil {
		return nil, fmt.Errorf("Invalid %s: %w", kind, err)
	}
	for _, fault := range p.faults {
		if fault != nil {
			return nil, fmt.Errorf("Invalid %s: %w", kind, fault)
		}
	}
	return p.out, nil
}

// rank is the order in which AWS reports semantic errors: an error of a lower rank
// hides faults of higher ranks, regardless of their positions in the text.
type rank uint8

const (
	rankParentheses rank = iota // redundant parentheses
	rankWord                    // a name, function or index that is not allowed here
	rankSection                 // a duplicate section of an update
	rankOperand                 // the number or kind of operands, and limits
	ranks
)

// parser is a recursive-descent parser with one token of lookahead (two for a
// function's parenthesis) and no backtracking.
//
// A syntax error ends the parse. The first semantic error of each rank is kept, and
// reported only if there is no syntax error.
type parser struct {
	out       *Parsed
	text      string
	tokens    []token
	at        int
	depth     int // open parentheses, functions and NOTs
	operators int
	faults    [ranks]error
}

func (p *parser) parse() error {
	if p.text == "" {
		return errors.New("The expression can not be empty;")
	}
	if len(p.text) > maxText {
		if p.out.kind == KindUpdate { // for which AWS omits the size
			return errors.New("Expression size has exceeded the maximum allowed size;")
		}
		return fmt.Errorf("Expression size has exceeded the maximum allowed size; expression size: %d", len(p.text))
	}
	p.tokens = lex(p.text)
	var err error
	switch p.out.kind {
	case KindUpdate:
		err = p.update()
	case KindProjection:
		p.out.paths, err = p.pathList()
	default:
		p.out.cond, err = p.condition()
	}
	if err != nil {
		return err
	}
	if p.peek().kind != tokenEOF {
		return p.unexpected()
	}
	return nil
}

func (p *parser) peek() token { return p.tokens[p.at] }

// ahead returns the token after the one that peek returns.
func (p *parser) ahead() token { return p.tokens[min(p.at+1, len(p.tokens)-1)] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	if t.kind != tokenEOF {
		p.at++
	}
	return t
}

func (p *parser) isSymbol(s string) bool {
	t := p.peek()
	return t.kind == tokenSymbol && t.text == s
}

// isKeyword reports whether the next token is the keyword.
func (p *parser) isKeyword(word string) bool {
	t := p.peek()
	return t.kind == tokenIdentifier && keyword(t.text, word)
}

func (p *parser) acceptSymbol(s string) bool {
	if p.isSymbol(s) {
		p.at++
		return true
	}
	return false
}

func (p *parser) acceptKeyword(word string) bool {
	if p.isKeyword(word) {
		p.at++
		return true
	}
	return false
}

func (p *parser) expectSymbol(s string) error {
	if !p.acceptSymbol(s) {
		return p.unexpected()
	}
	return nil
}

// unexpected returns a syntax error at the next token, quoting its neighbors.
func (p *parser) unexpected() error {
	t := p.peek()
	name := t.text
	if t.kind == tokenEOF {
		name = "<EOF>"
	}
	from, to := t.at, t.end()
	if p.at > 0 {
		from = p.tokens[p.at-1].at
	}
	if t.kind != tokenEOF && p.ahead().kind != tokenEOF {
		to = p.ahead().end()
	}
	return fmt.Errorf("Syntax error; token: %q, near: %q", name, p.text[from:to])
}

// deferError records a semantic error.
func (p *parser) deferError(r rank, format string, args ...any) {
	if p.faults[r] == nil {
		p.faults[r] = fmt.Errorf(format, args...)
	}
}

// descend enters a nesting level. Only too many operators or redundant parentheses can
// exceed maxNesting.
func (p *parser) descend() error {
	p.depth++
	switch {
	case p.depth <= maxNesting:
		return nil
	case p.operators > maxOperators:
		return errOperators
	}
	return errParentheses
}

func (p *parser) ascend() { p.depth-- }

func (p *parser) countOperator() {
	p.operators++
	if p.operators > maxOperators && p.faults[rankOperand] == nil {
		p.faults[rankOperand] = errOperators
	}
}

// The count is always maxOperators+1: AWS stops counting there.
var errOperators = fmt.Errorf("The expression contains too many operators; operator count: %d", maxOperators+1)

var errParentheses = errors.New("The expression has redundant parentheses;")

func (p *parser) redundant() { p.faults[rankParentheses] = errParentheses }

func (p *parser) pathList() ([]path, error) {
	var paths []path
	for {
		next, err := p.path()
		if err != nil {
			return nil, err
		}
		paths = append(paths, next)
		if !p.acceptSymbol(",") {
			return paths, nil
		}
	}
}

func (p *parser) path() (path, error) {
	first, err := p.pathName()
	if err != nil {
		return nil, err
	}
	steps := path{first}
	for {
		switch {
		case p.acceptSymbol("."):
			s, err := p.pathName()
			if err != nil {
				return nil, err
			}
			steps = append(steps, s)
		case p.acceptSymbol("["):
			s, err := p.pathIndex()
			if err != nil {
				return nil, err
			}
			steps = append(steps, s)
		default:
			if len(steps) > maxPath {
				p.deferError(rankOperand, "The document path has too many nesting levels; nesting levels: %d", len(steps))
			}
			return steps, nil
		}
	}
}

func (p *parser) pathName() (step, error) {
	switch t := p.peek(); {
	case t.kind == tokenName:
		p.next()
		return step{kind: stepPlaceholder, index: intern(&p.out.names, t.text)}, nil
	case t.kind == tokenIdentifier && !isGrammarWord(t.text):
		p.next()
		if isReserved(t.text) {
			p.deferError(rankWord, "Attribute name is a reserved keyword; reserved keyword: %s", t.text)
		}
		return step{kind: stepName, name: t.text}, nil
	}
	return step{}, p.unexpected()
}

// isGrammarWord reports whether word is a keyword of the grammar. The keywords are
// the same in every kind of expression.
func isGrammarWord(word string) bool {
	words := [...]string{"AND", "OR", "NOT", "IN", "BETWEEN", "SET", "REMOVE", "ADD", "DELETE"}
	return slices.ContainsFunc(words[:], func(w string) bool { return keyword(word, w) })
}

func (p *parser) pathIndex() (step, error) {
	t := p.peek()
	if t.kind != tokenNumber {
		return step{}, p.unexpected()
	}
	p.next()
	index, err := strconv.Atoi(t.text)
	if err != nil || index > maxIndex {
		p.deferError(rankWord, "List index is not within the allowable range; index: [%s]", t.text)
	}
	return step{kind: stepIndex, index: index}, p.expectSymbol("]")
}

func (p *parser) valueOperand() *operand {
	return &operand{kind: operandValue, ref: intern(&p.out.values, p.next().text)}
}

// call parses name(x, y, …). The name is the next token.
func (p *parser) call(argument func() (*operand, error)) (op, []*operand, error) {
	name := op(p.next().text)
	p.next() // the opening parenthesis
	p.countOperator()
	if err := p.descend(); err != nil {
		return name, nil, err
	}
	defer p.ascend()
	var args []*operand
	for {
		arg, err := argument()
		if err != nil {
			return name, nil, err
		}
		args = append(args, arg)
		if !p.acceptSymbol(",") {
			break
		}
	}
	if err := p.expectSymbol(")"); err != nil {
		return name, nil, err
	}
	f, known := lookUpFunction(name)
	switch {
	case !known:
		p.deferError(rankWord, "Invalid function name; function: %s", name)
	case f.args != len(args):
		p.deferError(rankOperand, "Incorrect number of operands for operator or function; operator or function: %s, number of operands: %d", name, len(args))
	}
	return name, args, nil
}

func (p *parser) isCall() bool {
	after := p.ahead()
	return p.peek().kind == tokenIdentifier && after.kind == tokenSymbol && after.text == "("
}

// intern returns the index of s in list, adding s if it is missing. Expressions are
// short, so a linear scan beats a map.
func intern(list *[]string, s string) int {
	if i := slices.Index(*list, s); i >= 0 {
		return i
	}
	*list = append(*list, s)
	return len(*list) - 1
}
