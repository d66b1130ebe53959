package isr

import (
	"errors"
	"fmt"
)

// Errors of a [Cache], in addition to those of package store.
var (
	// ErrNoBody: the body of an entry is missing, or differs from what was published.
	// The entry counts as missing.
	ErrNoBody = errors.New("the body is missing or damaged")

	// ErrNoRenderer: no route of this process renders the key.
	ErrNoRenderer = errors.New("no renderer for this key")
	// ErrUnreachable: no request maps to the key.
	ErrUnreachable = errors.New("no visitor can reach this page")
	// ErrUncacheable: the response must not be stored.
	ErrUncacheable = errors.New("the response is not cacheable")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("the cache is closed")
)

// A ConfigError reports an invalid field of a [Config] or a [Route].
type ConfigError struct {
	Field   string // its name, such as "Jitter"
	Problem string // such as "must be between 0 and 0.5 (got 2)"
}

func (e *ConfigError) Error() string { return "isr: " + e.Field + " " + e.Problem }

func configErrorf(field, format string, args ...any) error {
	return &ConfigError{Field: field, Problem: fmt.Sprintf(format, args...)}
}
