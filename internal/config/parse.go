package config

import (
	"fmt"
	"reflect"
	"slices"
)

// Parse parses the text of a configuration file. name is the file's, for messages;
// lookUpEnv returns a variable of the environment, as os.LookupEnv does. Every error is an
// *[Errors].
//
// The text has at most 1 MiB; it may nest 24 deep and have 200,000 values, with aliases
// counted at each use. Parse reads no file: secrets are read by [Secret.Read].
func Parse(name string, text []byte, lookUpEnv func(string) (string, bool)) (*File, error) {
	return newDecoder(name, string(text), lookUpEnv).file()
}

// Check is Parse that also reads the files that the file names, which a server needs at its start.
func Check(name string, text []byte, lookUpEnv func(string) (string, bool)) (*File, error) {
	d := newDecoder(name, string(text), lookUpEnv)
	d.files = true
	return d.file()
}

func (d *decoder) file() (*File, error) {
	root := d.parseYAML()
	if root == nil {
		return nil, d.err()
	}
	f := &File{}
	setDefaults(reflect.ValueOf(f).Elem())
	d.section(root, reflect.ValueOf(f).Elem(), "")
	f.complete(d)
	f.validate(d)
	if d.files {
		f.checkFiles(d)
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	f.name, f.sources = d.name, d.sources
	return f, nil
}

// complete adds what a file may omit: a listener, and a route for the requests that no
// other one matches; and resolves the settings of all routes.
func (f *File) complete(d *decoder) {
	if len(f.Listen) == 0 {
		f.Listen = make([]Listener, 1)
		setDefaults(reflect.ValueOf(&f.Listen[0]).Elem())
	}
	if f.PublicScheme == "" {
		f.PublicScheme = "http"
		if slices.ContainsFunc(f.Listen, func(l Listener) bool { return l.Encrypted() }) {
			f.PublicScheme = "https"
		}
	}
	preset := f.loadPreset(d)
	all := false
	for i := range f.Routes {
		all = all || f.Routes[i].Match == "/"
	}
	if !all {
		f.Routes = append(f.Routes, Route{Match: "/"})
	}
	for i := range f.Routes {
		r := &f.Routes[i]
		at := fmt.Sprintf("routes[%d]", i)
		f.resolve(d, r, preset, at)
		if r.Origin == "" && len(f.Origins) == 1 {
			for name := range f.Origins {
				r.Origin = name
			}
		}
	}
}
