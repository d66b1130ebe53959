package config

import (
	"fmt"
	"regexp"
	"strings"
)

// variable matches ${NAME} and ${NAME:-default}, and $${ that escapes them.
var variable = regexp.MustCompile(`\$\$\{|\$\{([^}]*)\}?`)

// wholeVariable matches a text that is one variable, without a default.
var wholeVariable = regexp.MustCompile(`^\$\{[A-Za-z_][A-Za-z0-9_]*\}$`)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// maxInterpolated bounds a text after variables are filled in, in bytes.
const maxInterpolated = 64 << 10

// interpolate fills in the variables of a text. Its errors do not contain their values.
func (d *decoder) interpolate(text string) (string, error) {
	if !strings.Contains(text, "${") {
		return text, nil
	}
	var err error
	length := len(text)
	text = variable.ReplaceAllStringFunc(text, func(found string) string {
		if found == "$${" {
			return "${"
		}
		body, closed := strings.CutSuffix(strings.TrimPrefix(found, "${"), "}")
		name, fallback, hasFallback := strings.Cut(body, ":-")
		value, set := d.env(name)
		length += len(value)
		switch {
		case err != nil:
		case !closed || !variableName.MatchString(name):
			err = fmt.Errorf("%.60q is not a variable; expected ${NAME} or ${NAME:-default}, or $${ for a literal ${", found)
		case hasFallback && value == "":
			return fallback
		case !set:
			err = fmt.Errorf("the variable %s is not set in the environment; set it, or give a default: ${%s:-value}", name, name)
		case length > maxInterpolated:
			err = fmt.Errorf("the text has more than %d bytes with the value of %s", maxInterpolated, name)
		}
		if err != nil {
			return ""
		}
		return value
	})
	return text, err
}
