package config

import (
	"fmt"
	"strings"
)

// maxErrors bounds how many errors of a file are reported.
const maxErrors = 50

// Errors are all errors of a file, in the order of their places.
type Errors struct {
	List []Error
	// More is the number of further errors, which are not listed.
	More int
}

// Error implements error, with a paragraph for each error.
func (e *Errors) Error() string {
	var b strings.Builder
	for i, err := range e.List {
		if i > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString(err.Error())
	}
	if e.More > 0 {
		fmt.Fprintf(&b, "\n\n%d more errors", e.More)
	}
	return b.String()
}

// An Error is an error at a place in a file.
type Error struct {
	File         string
	Line, Column int    // from 1; 0 if the error has no place
	Path         string // such as "routes[2].stale"; empty for the file as a whole
	Problem      string // what is wrong, and what to do
	Excerpt      string // the line, and a caret below its column; empty if there is no place
}

// Error implements error: "isr.yaml:14:5: routes[2].stael: unknown field; …", and below it
// the excerpt.
func (e Error) Error() string {
	text := e.File
	if e.Line > 0 {
		text = fmt.Sprintf("%s:%d:%d", e.File, e.Line, e.Column)
	}
	if e.Path != "" {
		text += ": " + e.Path
	}
	text += ": " + e.Problem
	if e.Excerpt != "" {
		text += "\n" + e.Excerpt
	}
	return text
}
