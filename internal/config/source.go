package config

import "fmt"

// A Source is where a value comes from.
type Source struct {
	// Preset is the name of the preset; empty if there is none.
	Preset string
	// File and Line are the place in the file; empty and 0 if there is none.
	File string
	Line int
	// Defaults: the place is in the defaults of the file.
	Defaults bool
}

// String describes the source: "isr.yaml:14", "isr.yaml:5 (defaults)", "preset next",
// "isr.yaml:14 and preset next", or "built-in".
func (s Source) String() string {
	text := ""
	if s.Line > 0 {
		text = fmt.Sprintf("%s:%d", s.File, s.Line)
		if s.Defaults {
			text += " (defaults)"
		}
	}
	switch {
	case s.Preset == "" && text == "":
		return "built-in"
	case s.Preset == "":
		return text
	case text == "":
		return "preset " + s.Preset
	}
	return text + " and preset " + s.Preset
}

// Source returns where the value at a path comes from, such as "memory", "origins" (if it
// has any), "origins.site.max_renders" or "routes[2].negative.404".
func (f *File) Source(path string) Source { return f.sources[path] }
