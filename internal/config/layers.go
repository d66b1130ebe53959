package config

import (
	"embed"
	"fmt"
	"reflect"
	"slices"
	"strings"
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

// OfPreset returns what a file means that names a preset, or none if the name is empty, and an origin with the name site,
// which the caller replaces. It is of no file, and so has no name.
func OfPreset(name string) (*File, error) {
	text := "origins: {site: {demo: true}}\n"
	if name != "" {
		text = "preset: " + name + "\n" + text
	}
	f, err := Parse("preset "+name, []byte(text), func(string) (string, bool) { return "", false })
	if err != nil {
		return nil, err
	}
	f.name = ""
	return f, nil
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
