// Package config reads the configuration file of isr serve (isr.yaml).
//
// [Parse] turns the text of a file into a [File], which is plain data: every route has its
// effective settings, and [File.Source] returns where each value comes from. It reads nothing
// but the text and the environment; [Check] also the files that the text names.
//
//	isr.yaml ─► YAML ─► unknown fields, types, bounds ─► ${ENV} ─► preset, defaults ─► File
//
// A file is either valid as a whole or not used: Parse reports all errors at once, each with
// its place, an excerpt and what to do.
//
// The struct tags of the types are the table of fields. The decoder, the JSON Schema
// ([Schema]) and docs/configuration.md ([Markdown]) are made from it:
//
//	yaml     name in the file
//	help     what it does
//	default  value if the file has none
//	unset    what applies without a value, if that is not a constant
//	min, max bounds, inclusive; max of a list or map is the number of its elements
//	enum     allowed texts
//	removed  a text that was allowed once, a colon, and what to write instead
//	format   how a text is checked: address, url, header, …
//	example  value for the documentation
//	restart  when a change needs a restart of the server: "yes", or "from or to 0"
//	preset   "add": what a preset lists is added to what the file lists
//
// The files:
//
//	file.go, route.go               the fields
//	field.go                        reads their tags; schema.go and markdown.go describe them
//	parse.go                        the order of all that follows
//	decode.go, yaml.go, scalar.go   text to values, with all errors at once
//	value.go, format.go             the types of values, and how texts are checked
//	layers.go, effective.go         route, defaults, preset, built in: which value applies, and where it is from
//	validate.go, rules.go           what fields require of each other; a [Route] as an isr.Route
//	files.go                        whether the files that it names are there
//	redirect.go                     redirects, and their map file
//	listener.go                     schemes and certificates of the listeners
//	compare.go                      what of a file is secret, and what differs between two
package config
