package expr

// update parses { section }. Each section occurs at most once and has at least one
// action:
//
//	SET path = operation { "," path = operation }
//	REMOVE path { "," path }
//	ADD path value { "," path value }
//	DELETE path value { "," path value }
func (p *parser) update() error {
	seen := map[verb]bool{}
	for {
		verb, ok := p.verb()
		if !ok {
			return p.unexpected()
		}
		if seen[verb] {
			p.deferError(rankSection, "The %q section can only be used once in an update expression;", string(verb))
		}
		seen[verb] = true
		for {
			a, err := p.action(verb)
			if err != nil {
				return err
			}
			p.out.actions = append(p.out.actions, a)
			if !p.acceptSymbol(",") {
				break
			}
		}
		if p.peek().kind == tokenEOF {
			return nil
		}
	}
}

func (p *parser) verb() (verb, bool) {
	for _, v := range []verb{verbSet, verbRemove, verbAdd, verbDelete} {
		if p.acceptKeyword(string(v)) {
			return v, true
		}
	}
	return "", false
}

func (p *parser) action(verb verb) (a action, err error) {
	a.verb = verb
	if a.path, err = p.path(); err != nil {
		return a, err
	}
	switch verb {
	case verbSet:
		if err = p.expectSymbol("="); err == nil {
			a.arg, err = p.operation()
		}
	case verbAdd, verbDelete:
		if p.peek().kind != tokenValue {
			return a, p.unexpected()
		}
		a.arg = p.valueOperand()
	}
	return a, err
}

// setTerm is a term of SET: an operand or a sum. Like a sum, list_append is allowed only
// at the top level of an assignment.
type setTerm struct {
	operand  *operand
	sum      bool
	enclosed bool // directly in parentheses
}

// checkNested checks a term that is an operand of another.
func (p *parser) checkNested(t setTerm) {
	if t.operand.kind == operandListAppend {
		p.misplaced(opListAppend)
	}
}

// operation parses the right-hand side of a SET action:
//
//	operation = primary [ ("+" | "-") primary ]
//	primary   = "(" operation ")" | function | path | value
//
// A sum may be parenthesized as a whole, but must not be an operand of another sum or
// of a function.
func (p *parser) operation() (*operand, error) {
	t, err := p.sum()
	return t.operand, err
}

func (p *parser) sum() (setTerm, error) {
	left, err := p.setPrimary(p.sum)
	if err != nil || left.sum {
		return left, err
	}
	kind := operandAdd
	switch {
	case p.acceptSymbol("+"):
	case p.acceptSymbol("-"):
		kind = operandSubtract
	default:
		return left, nil
	}
	p.checkNested(left)
	p.countOperator()
	right, err := p.setOperand()
	return setTerm{operand: &operand{kind: kind, args: []*operand{left.operand, right}}, sum: true}, err
}

// setOperand parses a primary that is an operand of another term.
func (p *parser) setOperand() (*operand, error) {
	t, err := p.setPart()
	if err != nil {
		return nil, err
	}
	p.checkNested(t)
	return t.operand, nil
}

func (p *parser) setPart() (setTerm, error) { return p.setPrimary(p.setPart) }

// setPrimary parses a primary. enclosed parses the content of its parentheses.
func (p *parser) setPrimary(enclosed func() (setTerm, error)) (setTerm, error) {
	switch t := p.peek(); {
	case p.acceptSymbol("("):
		return p.setEnclosed(enclosed)
	case p.isCall() && !isGrammarWord(t.text):
		o, err := p.setFunction()
		return setTerm{operand: o}, err
	case t.kind == tokenValue:
		return setTerm{operand: p.valueOperand()}, nil
	}
	path, err := p.path()
	return setTerm{operand: &operand{kind: operandPath, path: path}}, err
}

func (p *parser) setEnclosed(enclosed func() (setTerm, error)) (setTerm, error) {
	if err := p.descend(); err != nil {
		return setTerm{}, err
	}
	defer p.ascend()
	t, err := enclosed()
	if err != nil {
		return t, err
	}
	if t.enclosed {
		p.redundant()
	}
	t.enclosed = true
	return t, p.expectSymbol(")")
}

func (p *parser) setFunction() (*operand, error) {
	name, args, err := p.call(p.setOperand)
	if err != nil {
		return nil, err
	}
	switch name {
	case opIfNotExists:
		return &operand{kind: operandIfNotExists, path: args[0].path, args: args}, nil
	case opListAppend:
		return &operand{kind: operandListAppend, args: args}, nil
	}
	if _, known := lookUpFunction(name); known {
		p.deferError(rankWord, "The function is not allowed in an update expression; function: %s", name)
	}
	return &operand{}, nil
}
