package localdynamo

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aws/smithy-go"
)

// maxBroken is how many broken constraints AWS reports at once.
const maxBroken = 10

// constraintError is the ValidationException of members that break constraints
// of AWS's model, such as a length or a set of values. Unlike other faults
// they are looked for in the whole request before any is reported.
type constraintError struct {
	*smithy.GenericAPIError
	broken []string // one sentence each
}

func (e *constraintError) Unwrap() error { return e.GenericAPIError }

// broken returns the error for sentences about constraints; there is one at
// least.
func broken(sentences ...string) error {
	sentences = sentences[:min(len(sentences), maxBroken)]
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

// together makes one error of all broken constraints among the faults, some of
// which may be nil. Faults of other kinds come after those: the first of them
// is returned if no constraint is broken.
func together(faults ...error) error {
	var sentences []string
	var other error
	for _, fault := range faults {
		var e *constraintError
		if errors.As(fault, &e) {
			sentences = append(sentences, e.broken...)
		} else if other == nil {
			other = fault
		}
	}
	if len(sentences) > 0 {
		return broken(sentences...)
	}
	return other
}

func errNull(member string) error {
	return broken("Value null at '" + member + "' failed to satisfy constraint: Member must not be null")
}

func errConstraint(value, member, constraint string) error {
	return broken("Value '" + value + "' at '" + member + "' failed to satisfy constraint: " + constraint)
}

// checkLength wants from one to most members of a list or characters of a text.
// AWS tells such a member's name, not its value.
func checkLength(member string, n, most int) error {
	switch {
	case n < 1:
		return errTooShort(member)
	case n > most:
		return broken(fmt.Sprintf("Value at '%s' failed to satisfy constraint: Member must have length less than or equal to %d", member, most))
	}
	return nil
}

func errTooShort(member string) error {
	return broken("Value at '" + member + "' failed to satisfy constraint: Member must have length greater than or equal to 1")
}

// Bounds of the names of tables and indexes, in characters.
const (
	minName = 3
	maxName = 255
)

// checkName checks the name of a table or an index, which stands in member.
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
	return together(pattern, length)
}

func notInName(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.'
}
