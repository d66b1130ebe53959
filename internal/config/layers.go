package config

import (
	"reflect"
	"slices"
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
