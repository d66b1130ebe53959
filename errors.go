package isr

import "errors"

// What callers of a [Cache] branch on, next to the errors of its stores.
var (
	// ErrNoBody: the body of an entry is missing, or is not what was published.
	// The entry counts as missing.
	ErrNoBody = errors.New("the body is missing or damaged")

	// ErrNoRenderer: nobody is registered to render this key.
	ErrNoRenderer = errors.New("no renderer for this key")
	// ErrUnreachable: no visitor's request leads to this page.
	ErrUnreachable = errors.New("no visitor can reach this page")
	// ErrUncacheable: the response says, or shows, that it must not be stored.
	ErrUncacheable = errors.New("the response is not cacheable")
	// ErrClosed: the cache was closed.
	ErrClosed = errors.New("the cache is closed")
)
