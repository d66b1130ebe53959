package server

import (
	"fmt"
	"slices"

	"github.com/facetheory/isr/dynamostore"
)

// A guard names an additional condition of writes to the table.
type guard string

const (
	guardMonotonic guard = "monotonic"
	guardVersion   guard = "version"
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (g *guard) UnmarshalText(text []byte) error {
	*g = guard(text)
	if *g != guardMonotonic && *g != guardVersion {
		return fmt.Errorf("%q is not a guard; expected %s or %s", text, guardMonotonic, guardVersion)
	}
	return nil
}

// guardsOf returns the guards of the store.
func guardsOf(named []guard) dynamostore.Guards {
	return dynamostore.Guards{Monotonic: slices.Contains(named, guardMonotonic), Version: slices.Contains(named, guardVersion)}
}
