package expr

// term is what a parenthesis may hold: a condition or an operand. Which of
// the two is known only when it has been read, so that both are read by the
// same rules and nothing is ever read twice.
type term struct {
	cond     *cond
	operand  *operand
	enclosed bool // directly in parentheses
	call     op   // a bare function call, by its name
}

// condition reads a whole condition, lowest precedence first:
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

// chain reads inner { word inner } into one node, however many there are.
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

// operand reads one that must be an operand.
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

// enclosed reads what stands between parentheses, the first of which is read.
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

// function reads a call. Whether a condition or an operand was wanted is seen
// by who wanted it.
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

// asCond and asOperand decide what a term was. A function in the wrong place
// is an error of meaning; anything else in the wrong place, of the grammar.
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
