package expr

// term is a condition or an operand. Parentheses may contain either, and only parsing
// the content tells which, so the same rules parse both and nothing is parsed twice.
type term struct {
	cond     *cond
	operand  *operand
	enclosed bool // directly in parentheses
	call     op   // the function's name, if the term is a bare function call
}

// condition parses a condition, lowest precedence first:
//
//	or        = and { OR and }
//	and       = not { AND not }
//	not       = NOT not | predicate
//	predicate = primary [ comparator primary | BETWEEN primary AND primary | IN "(" primary { "," primary } ")" ]
//	primary   = "(" or ")" | function | path | value
func (p *parser) condition() (*cond, error) {
	t, err := p.or()
	if err != nil {
		return nil, err
	}
	return p.asCond(t)
}

func (p *parser) or() (term, error)  { return p.chain("OR", opOr, p.and) }
func (p *parser) and() (term, error) { return p.chain("AND", opAnd, p.not) }

// chain parses inner { word inner } into a single node.
func (p *parser) chain(word string, op op, inner func() (term, error)) (term, error) {
	first, err := inner()
	if err != nil || !p.isKeyword(word) {
		return first, err
	}
	c, err := p.asCond(first)
	if err != nil {
		return term{}, err
	}
	children := []*cond{c}
	for p.acceptKeyword(word) {
		p.countOperator()
		t, err := inner()
		if err != nil {
			return term{}, err
		}
		if c, err = p.asCond(t); err != nil {
			return term{}, err
		}
		children = append(children, c)
	}
	return term{cond: &cond{op: op, children: children}}, nil
}

func (p *parser) not() (term, error) {
	if !p.acceptKeyword("NOT") {
		return p.predicate()
	}
	p.countOperator()
	if err := p.descend(); err != nil {
		return term{}, err
	}
	defer p.ascend()
	t, err := p.not()
	if err != nil {
		return term{}, err
	}
	c, err := p.asCond(t)
	return term{cond: &cond{op: opNot, children: []*cond{c}}}, err
}

func (p *parser) predicate() (term, error) {
	left, err := p.primary()
	if err != nil {
		return term{}, err
	}
	switch {
	case p.isComparator():
		return p.comparison(left)
	case p.isKeyword("BETWEEN"):
		return p.between(left)
	case p.isKeyword("IN"):
		return p.in(left)
	}
	return left, nil
}

func (p *parser) isComparator() bool {
	t := p.peek()
	if t.kind != tokenSymbol {
		return false
	}
	switch op(t.text) {
	case opEqual, opNotEqual, opLess, opLessEqual, opGreater, opGreaterEqual:
		return true
	}
	return false
}

func (p *parser) comparison(left term) (term, error) {
	x, err := p.asOperand(left)
	if err != nil {
		return term{}, err
	}
	operator := op(p.next().text)
	p.countOperator()
	y, err := p.operand()
	return term{cond: &cond{op: operator, args: []*operand{x, y}}}, err
}

func (p *parser) between(left term) (term, error) {
	x, err := p.asOperand(left)
	if err != nil {
		return term{}, err
	}
	p.next()
	p.countOperator()
	low, err := p.operand()
	if err != nil {
		return term{}, err
	}
	if !p.acceptKeyword("AND") {
		return term{}, p.unexpected()
	}
	high, err := p.operand()
	return term{cond: &cond{op: opBetween, args: []*operand{x, low, high}}}, err
}

func (p *parser) in(left term) (term, error) {
	x, err := p.asOperand(left)
	if err != nil {
		return term{}, err
	}
	p.next()
	p.countOperator()
	if err := p.expectSymbol("("); err != nil {
		return term{}, err
	}
	args := []*operand{x}
	for {
		y, err := p.operand()
		if err != nil {
			return term{}, err
		}
		args = append(args, y)
		if !p.acceptSymbol(",") {
			break
		}
	}
	if n := len(args) - 1; n > maxIn {
		p.deferError(rankOperand, "The IN operator is provided with too many operands; number of operands: %d", n)
	}
	return term{cond: &cond{op: opIn, args: args}}, p.expectSymbol(")")
}

// operand parses a primary that must be an operand.
func (p *parser) operand() (*operand, error) {
	t, err := p.primary()
	if err != nil {
		return nil, err
	}
	return p.asOperand(t)
}

func (p *parser) primary() (term, error) {
	switch t := p.peek(); {
	case p.acceptSymbol("("):
		return p.enclosed()
	case p.isCall() && !isGrammarWord(t.text):
		return p.function()
	case t.kind == tokenValue:
		return term{operand: p.valueOperand()}, nil
	}
	path, err := p.path()
	return term{operand: &operand{kind: operandPath, path: path}}, err
}

// enclosed parses a parenthesized term after its opening parenthesis.
func (p *parser) enclosed() (term, error) {
	if err := p.descend(); err != nil {
		return term{}, err
	}
	defer p.ascend()
	t, err := p.or()
	if err != nil {
		return term{}, err
	}
	if t.enclosed {
		p.redundant()
	}
	t.enclosed = true
	return t, p.expectSymbol(")")
}

// function parses a function call. The caller checks whether it is the condition or
// operand that the context requires (asCond, asOperand).
func (p *parser) function() (term, error) {
	name, args, err := p.call(p.operand)
	if err != nil {
		return term{}, err
	}
	f, known := lookUpFunction(name)
	if f.update {
		p.deferError(rankWord, "The function is not allowed in a condition expression; function: %s", name)
	}
	if !known || f.operand || f.update {
		return term{operand: &operand{kind: operandSize, args: args}, call: name}, nil
	}
	return term{cond: &cond{op: name, args: args}, call: name}, nil
}

// asCond and asOperand require a term of one kind. A misplaced function is a semantic
// error; anything else is a syntax error.
func (p *parser) asCond(t term) (*cond, error) {
	switch {
	case t.cond != nil:
		return t.cond, nil
	case t.call != "":
		p.misplaced(t.call)
		return &cond{}, nil
	}
	return nil, p.unexpected()
}

func (p *parser) asOperand(t term) (*operand, error) {
	switch {
	case t.operand != nil:
		return t.operand, nil
	case t.call != "":
		p.misplaced(t.call)
		return &operand{}, nil
	}
	return nil, p.unexpected()
}

func (p *parser) misplaced(name op) {
	p.deferError(rankWord, "The function is not allowed to be used this way in an expression; function: %s", name)
}
