package config

import (
	"fmt"
	"reflect"
	"strings"
)

// Markdown returns the reference of all fields for docs/configuration.md: a table for each
// section of a file.
func Markdown() string {
	var b strings.Builder
	tableOf(&b, "The top level", "", typeOf[File]())
	var walk func(t reflect.Type, path string)
	walk = func(t reflect.Type, path string) {
		for _, f := range fieldsOf(t) {
			section, many := isSection(f.typ)
			at := join(path, f.name)
			switch {
			case section == nil:
				continue
			case f.typ.Kind() == reflect.Map:
				at += ".NAME"
			case many:
				at += "[]"
			}
			title := "`" + at + "`"
			if section == typeOf[Route]() {
				tableOf(&b, title, "A route also has the fields of `defaults`, for itself.", section)
				continue
			}
			tableOf(&b, title, f.help, section)
			walk(section, at)
		}
	}
	walk(typeOf[File](), "")
	return b.String()
}

// tableOf writes the table of a section.
func tableOf(b *strings.Builder, title, help string, t reflect.Type) {
	fmt.Fprintf(b, "### %s\n\n", title)
	if help != "" {
		fmt.Fprintf(b, "%s\n\n", help)
	}
	b.WriteString("| field | type | default | what it does | example |\n|---|---|---|---|---|\n")
	for _, f := range fieldsOf(t) {
		if isSetting(t, f) {
			continue
		}
		help := f.help
		switch f.restart {
		case "":
		case "yes":
			help += " †"
		default:
			help += " † " + f.restart
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", f.name, f.typeText()+f.bounds(), f.defaultText(), cell(help), code(f.example))
	}
	b.WriteString("\n")
}

// bounds describes the bounds of a field: ", 1 to 100".
func (f *field) bounds() string {
	switch {
	case f.min != "" && f.max != "":
		return fmt.Sprintf(", %s to %s", f.min, f.max)
	case f.max != "":
		return ", at most " + f.max
	}
	return ""
}

// defaultText describes what applies without a value.
func (f *field) defaultText() string {
	section, _ := isSection(f.typ)
	switch {
	case f.unset != "":
		return cell(f.unset)
	case f.def != "":
		return code(f.def)
	case f.required:
		return "required"
	case section != nil:
		return ""
	case f.typ.Kind() == reflect.Bool:
		return "`false`"
	}
	return "none"
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + cell(text) + "`"
}

// cell escapes a text for a cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
