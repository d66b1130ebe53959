package localdynamo

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aws/smithy-go"
)

// maxViolations is how many violated constraints AWS reports in one error.
const maxViolations = 10

// constraintError is the ValidationException for members that violate
// constraints of AWS's service model, such as a length or an enum. Unlike other
// errors, they are collected from the whole request.
type constraintError struct {
	*smithy.GenericAPIError
	violations []string // one sentence per constraint
}

func (e *constraintError) Unwrap() error { return e.GenericAPIError }

// errViolations returns the error for at least one violation.
func errViolations(sentences ...string) error {
	sentences = sentences[:min(len(sentences), maxViolations)]
	plural := ""
	if len(sentences) > 1 {
		plural = "s"
	}
	message := fmt.Sprintf("%d validation error%s detected: %s", len(sentences), plural, strings.Join(sentences, "; "))
	return &constraintError{
		&smithy.GenericAPIError{Code: codeValidation, Message: message, Fault: smithy.FaultClient},
		sentences,
	}
}

// joinFaults merges all constraint violations among the faults into one error.
// Without violations it returns the first other fault. Faults may be nil.
func joinFaults(faults ...error) error {
	var sentences []string
	var other error
	for _, fault := range faults {
		var e *constraintError
		if errors.As(fault, &e) {
			sentences = append(sentences, e.violations...)
		} else if other == nil {
			other = fault
		}
	}
	if len(sentences) > 0 {
		return errViolations(sentences...)
	}
	return other
}

func errNull(member string) error {
	return errViolations("Value null at '" + member + "' failed to satisfy constraint: Member must not be null")
}

func errConstraint(value, member, constraint string) error {
	return errViolations("Value '" + value + "' at '" + member + "' failed to satisfy constraint: " + constraint)
}

// checkLength requires a length from 1 to most, of a list or a string. AWS's
// message quotes the member's name, not its value.
func checkLength(member string, n, most int) error {
	switch {
	case n < 1:
		return errTooShort(member)
	case n > most:
		return errViolations(fmt.Sprintf("Value at '%s' failed to satisfy constraint: Member must have length less than or equal to %d", member, most))
	}
	return nil
}

func errTooShort(member string) error {
	return errViolations("Value at '" + member + "' failed to satisfy constraint: Member must have length greater than or equal to 1")
}

// Limits for the names of tables and indexes, in characters.
const (
	minName = 3
	maxName = 255
)

// checkName checks the name of a table or an index. member is its path in the
// request.
func checkName(member string, name *string) error {
	if name == nil {
		return errNull(member)
	}
	var pattern, length error
	if strings.ContainsFunc(*name, notInName) {
		pattern = errConstraint(*name, member, "Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+")
	}
	switch n := len(*name); {
	case n < minName:
		length = errConstraint(*name, member, fmt.Sprintf("Member must have length greater than or equal to %d", minName))
	case n > maxName:
		length = errConstraint(*name, member, fmt.Sprintf("Member must have length less than or equal to %d", maxName))
	}
	return joinFaults(pattern, length)
}

func notInName(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.'
}
