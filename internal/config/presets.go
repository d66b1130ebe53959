package config

import (
	"embed"
	"fmt"
	"reflect"
	"strings"
)

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
