package expr

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/value"
)

// maxPlaceholder is the maximum length of a #name or :value, in bytes.
const maxPlaceholder = 255

// Scope holds the names and values that a request (or an action of a transaction)
// substitutes into its expressions. It records which ones they use; CheckUnused
// reports the others.
type Scope struct {
	cache  *Cache
	names  map[string]string
	values map[string]types.AttributeValue
	used   []*Parsed
}

// ValueError is returned by NewScope for an invalid value.
type ValueError struct {
	Key   string // with its colon
	Fault error
}

// Error uses the older message of a value.Fault: it is the only one that AWS uses
// together with a key.
func (e *ValueError) Error() string {
	fault := e.Fault.Error()
	var both *value.Fault
	if errors.As(e.Fault, &both) {
		fault = both.Older()
	}
	return fmt.Sprintf("ExpressionAttributeValues contains invalid value: %s for key %s", fault, e.Key)
}

// Unwrap returns e.Fault.
func (e *ValueError) Unwrap() error { return e.Fault }

// NewScope validates names and values. A nil map means that the parameter is absent;
// an empty one is an error.
func NewScope(cache *Cache, names map[string]string, values map[string]types.AttributeValue) (*Scope, error) {
	if names != nil && len(names) == 0 {
		return nil, errors.New("ExpressionAttributeNames must not be empty")
	}
	for key, name := range names {
		if err := checkPlaceholder("ExpressionAttributeNames", '#', key); err != nil {
			return nil, err
		}
		if name == "" {
			return nil, fmt.Errorf("ExpressionAttributeNames contains invalid value: Empty attribute name for key %s", key)
		}
		if len(name) > value.MaxName {
			return nil, fmt.Errorf("ExpressionAttributeNames contains invalid value: %w for key %s", value.ErrLongName, key)
		}
	}
	if values != nil && len(values) == 0 {
		return nil, errors.New("ExpressionAttributeValues must not be empty")
	}
	for key := range values {
		if err := checkPlaceholder("ExpressionAttributeValues", ':', key); err != nil {
			return nil, err
		}
	}
	normalized, err := normalizeValues(values)
	if err != nil {
		return nil, err
	}
	return &Scope{cache: cache, names: names, values: normalized}, nil
}

// normalizeValues validates and copies all values, used or not. If several are
// invalid, it reports the one with the lowest key.
func normalizeValues(values map[string]types.AttributeValue) (map[string]types.AttributeValue, error) {
	if values == nil {
		return nil, nil
	}
	out := make(map[string]types.AttributeValue, len(values))
	var faulty string
	var fault error
	for key, raw := range values {
		v, err := value.Normalize(raw)
		if err != nil && (fault == nil || key < faulty) {
			faulty, fault = key, err
		}
		out[key] = v
	}
	if fault != nil {
		return nil, &ValueError{Key: faulty, Fault: fault}
	}
	return out, nil
}

func checkPlaceholder(parameter string, sigil byte, key string) error {
	if len(key) > maxPlaceholder {
		return fmt.Errorf("%s contains invalid key: The expression attribute map contains a key that is too long; key: %.32q", parameter, key)
	}
	if len(key) < 2 || key[0] != sigil || wordLen(key[1:]) != len(key)-1 {
		return fmt.Errorf("%s contains invalid key: Syntax error; key: %q", parameter, key)
	}
	return nil
}

// Size returns the size of all values in bytes, without their names.
func (s *Scope) Size() int {
	n := 0
	for _, v := range s.values {
		n += value.Size(v)
	}
	return n
}

// CheckUnused returns an error if a name or value is not used by any expression.
func (s *Scope) CheckUnused() error {
	if len(s.used) == 0 {
		switch {
		case s.names != nil:
			return errors.New("ExpressionAttributeNames can only be specified when using expressions")
		case s.values != nil:
			return errors.New("ExpressionAttributeValues can only be specified when using expressions")
		}
		return nil
	}
	names := func(p *Parsed) []string { return p.names }
	if unused := unusedKeys(s.names, s.used, names); unused != "" {
		return fmt.Errorf("Value provided in ExpressionAttributeNames unused in expressions: keys: {%s}", unused)
	}
	values := func(p *Parsed) []string { return p.values }
	if unused := unusedKeys(s.values, s.used, values); unused != "" {
		return fmt.Errorf("Value provided in ExpressionAttributeValues unused in expressions: keys: {%s}", unused)
	}
	return nil
}

// unusedKeys lists the keys of given that no expression uses.
func unusedKeys[V any](given map[string]V, used []*Parsed, mentioned func(*Parsed) []string) string {
	if len(used) == 1 && len(mentioned(used[0])) == len(given) {
		return "" // bind found every mentioned key in given
	}
	unused := make(map[string]struct{}, len(given))
	for key := range given {
		unused[key] = struct{}{}
	}
	for _, p := range used {
		for _, key := range mentioned(p) {
			delete(unused, key)
		}
	}
	keys := make([]string, 0, len(unused))
	for key := range unused {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return strings.Join(keys, ", ")
}

// binding is a parsed expression with the values of its placeholders.
type binding struct {
	*Parsed
	names  []string
	values []types.AttributeValue
}

// bind parses text and resolves its placeholders. Undefined ones stay "" and nil; the
// checks report them when they reach them, so that the first error in the text is the
// one reported.
func (s *Scope) bind(kind Kind, text string) (binding, error) {
	parsed, err := s.cache.Parse(kind, text)
	if err != nil {
		return binding{}, err
	}
	b := binding{Parsed: parsed}
	if len(parsed.names) > 0 {
		b.names = make([]string, len(parsed.names))
	}
	for i, key := range parsed.names {
		b.names[i] = s.names[key]
	}
	if len(parsed.values) > 0 {
		b.values = make([]types.AttributeValue, len(parsed.values))
	}
	for i, key := range parsed.values {
		b.values[i] = s.values[key]
	}
	s.used = append(s.used, parsed)
	return b, nil
}

func (b *binding) errorf(format string, args ...any) error {
	return fmt.Errorf("Invalid %s: %w", b.kind, fmt.Errorf(format, args...))
}

// name returns the attribute name of a step that is not an index.
func (b *binding) name(s step) string {
	if s.kind == stepPlaceholder {
		return b.names[s.index]
	}
	return s.name
}

// formatPath formats a path as AWS's messages do: [a, b, [2]].
func (b *binding) formatPath(p path) string {
	parts := make([]string, len(p))
	for i, s := range p {
		if s.kind == stepIndex {
			parts[i] = "[" + strconv.Itoa(s.index) + "]"
		} else {
			parts[i] = b.name(s)
		}
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func (b *binding) samePath(p, q path) bool {
	return slices.EqualFunc(p, q, func(s, t step) bool {
		if s.kind == stepIndex || t.kind == stepIndex {
			return s.kind == t.kind && s.index == t.index
		}
		return b.name(s) == b.name(t)
	})
}
