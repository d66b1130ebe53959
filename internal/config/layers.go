package config

import (
	"embed"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// resolve sets the settings of a route that it does not set itself: from defaults, from the
// preset, else built in. What a preset lists is added to what the file lists.
func (f *File) resolve(d *decoder, r *Route, preset Settings, path string) {
	var effective Settings
	v := reflect.ValueOf(&effective).Elem()
	setBuiltIn(v)
	inherit(v, reflect.ValueOf(r.Settings), d.sources, path, path)
	inherit(v, reflect.ValueOf(f.Defaults), d.sources, "defaults", path)
	inherit(v, reflect.ValueOf(preset), d.sources, "preset", path)
	r.Settings = effective
}

// setBuiltIn sets the built-in defaults of settings.
func setBuiltIn(v reflect.Value) {
	for _, f := range fieldsOf(v.Type()) {
		at := v.FieldByIndex(f.index)
		if section, _ := isSection(f.typ); section != nil {
			setBuiltIn(at)
		} else if f.def != "" {
			setDefault(at, &f)
		}
	}
}

// inherit sets the fields of to, whose path is path, that the section at from sets and that
// have no source yet. A section inherits from itself first: then the fields that it sets
// have their sources.
func inherit(to, settings reflect.Value, sources map[string]Source, from, path string) {
	for _, f := range fieldsOf(to.Type()) {
		name, at := join(from, f.name), join(path, f.name)
		target, value := to.FieldByIndex(f.index), settings.FieldByIndex(f.index)
		if section, _ := isSection(f.typ); section != nil {
			inherit(target, value, sources, name, at)
			continue
		}
		source, set := sources[name]
		own, has := sources[at]
		switch {
		case !set:
			continue
		case !has || from == path:
			target.Set(value)
		case source.Line == 0 && f.addsToPreset && own.Preset == "":
			own.Preset = source.Preset
			source = own
			target.Set(union(target, value))
		default:
			continue
		}
		if !has && source.Line > 0 {
			source.Defaults = true
		}
		sources[at] = source
	}
}

// union returns the elements of a list and the elements of another that it does not have, by name.
func union(a, b reflect.Value) reflect.Value {
	if keys, ok := a.Interface().(Keys); ok {
		for _, key := range b.Interface().(Keys) {
			if !slices.Contains(keys.names(), key.Name) {
				keys = append(slices.Clip(keys), key)
			}
		}
		return reflect.ValueOf(keys)
	}
	texts := a.Interface().([]string)
	for _, text := range b.Interface().([]string) {
		if !slices.Contains(texts, text) {
			texts = append(slices.Clip(texts), text)
		}
	}
	return reflect.ValueOf(texts)
}

//go:embed presets/*.yaml
var presetFiles embed.FS

// Presets returns the names of the presets.
func Presets() []string {
	return find(fieldsOf(typeOf[File]()), "preset").enum
}

// PresetText returns the text of a preset, which is part of a configuration file: defaults
// and routes. It is false for an unknown name.
func PresetText(name string) (string, bool) {
	text, err := presetFiles.ReadFile("presets/" + name + ".yaml")
	return string(text), err == nil
}

// preset is the content of a preset.
type preset struct {
	Defaults Settings `yaml:"defaults"`
	Routes   []Route  `yaml:"routes" max:"100"`
}

// loadPreset adds the routes of the file's preset to the routes of the file, and returns its
// settings. A route of the file replaces one of the preset with the same match. A pattern
// with a host is more specific than all without one, so the preset's routes are also added
// for each host that patterns of the file name: its paths stay uncached there too.
func (f *File) loadPreset(d *decoder) Settings {
	text, ok := PresetText(f.Preset)
	if f.Preset == "" || !ok {
		return Settings{}
	}
	var p preset
	in := newDecoder("preset "+f.Preset, text, func(string) (string, bool) { return "", false })
	if root := in.parseYAML(); root != nil {
		in.section(root, reflect.ValueOf(&p).Elem(), "")
	}
	d.errs.List = append(d.errs.List, in.errs.List...) // none: a test parses all presets
	for path := range in.sources {
		if name, ok := strings.CutPrefix(path, "defaults."); ok {
			d.sources["preset."+name] = Source{Preset: f.Preset}
		}
	}
	own := make(map[string]bool)
	hosts := []string{""}
	for _, r := range f.Routes {
		own[r.Match] = true
		if host := hostOf(r.Match); host != "" && !own["host "+host] {
			own["host "+host] = true
			hosts = append(hosts, host)
		}
	}
	for i, r := range p.Routes {
		from := fmt.Sprintf("routes[%d].", i)
		for _, host := range hosts {
			added := r
			added.Match = host + r.Match
			if own[added.Match] {
				continue
			}
			to := fmt.Sprintf("routes[%d].", len(f.Routes))
			for path := range in.sources {
				if name, ok := strings.CutPrefix(path, from); ok {
					d.sources[to+name] = Source{Preset: f.Preset}
				}
			}
			f.Routes = append(f.Routes, added)
		}
	}
	return p.Defaults
}

// hostOf returns the host of a pattern; empty if it has none.
func hostOf(match string) string {
	_, place, found := strings.Cut(match, " ")
	if !found {
		place = match
	}
	host, _, _ := strings.Cut(strings.TrimLeft(place, " \t"), "/")
	return host
}

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

// An Effective is the value that a field has, and where it comes from.
type Effective struct {
	Name   string // such as "negative.404"
	Value  string // in the format of the file; empty if the field has no value
	Source Source
}

// Effective returns the settings of a route, by its index, in the order of the
// documentation.
func (f *File) Effective(route int) []Effective {
	return f.effective(reflect.ValueOf(f.Routes[route].Settings), fmt.Sprintf("routes[%d]", route), "")
}

func (f *File) effective(v reflect.Value, path, prefix string) []Effective {
	var all []Effective
	for _, field := range fieldsOf(v.Type()) {
		value, name := v.FieldByIndex(field.index), join(prefix, field.name)
		if section, _ := isSection(field.typ); section != nil {
			all = append(all, f.effective(value, path, name)...)
			continue
		}
		text := valueText(value)
		if text == "" {
			text = field.unset
		}
		all = append(all, Effective{Name: name, Value: text, Source: f.Source(path + "." + name)})
	}
	return all
}

// valueText formats a value as a file has it; empty if there is none.
func valueText(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	switch value := v.Interface().(type) {
	case time.Duration:
		return formatDuration(value)
	case []string:
		return strings.Join(value, ", ")
	case Keys:
		var texts []string
		for _, key := range value {
			text := key.Name
			if len(key.Values) > 0 {
				text += " (" + strings.Join(key.Values, ", ") + ")"
			}
			texts = append(texts, text)
		}
		return strings.Join(texts, ", ")
	case map[string]string:
		var texts []string
		for name, text := range value {
			texts = append(texts, name+": "+text)
		}
		slices.Sort(texts)
		return strings.Join(texts, ", ")
	case float64:
		return strconv.FormatFloat(value, 'g', -1, 64)
	}
	return fmt.Sprint(v.Interface())
}
