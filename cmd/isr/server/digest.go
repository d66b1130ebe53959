package server

import (
	"fmt"
	"sync/atomic"

	"github.com/alecthomas/kong"

	"github.com/facetheory/isr/internal/config"
)

// digestFlags are the flags, besides those that set the file (siteFlags), that all servers of
// a fleet should have alike. Addresses, folders and secrets are not among them.
func digestFlags() map[string]bool {
	flags := map[string]bool{
		"table": true, "bucket": true, "region": true, "store-timeout": true, "guard": true, "downstream": true, "purge-method": true, "purge-from": true,
		"hook-public": true, "regenerate-queue": true, "purge-queue": true, "purge-queue-target": true, "purge-queue-hard": true,
	}
	for _, f := range cacheFields() {
		flags[f.flag] = true
	}
	return flags
}

// A digest is of the configuration of a server, which a reload changes.
type digest struct{ text atomic.Pointer[string] }

// newDigest returns the digest of a file and of the flags, which the file has set.
func newDigest(c *ServeCommand, f *config.File) *digest {
	d := new(digest)
	d.set(c, f)
	return d
}

func (d *digest) set(c *ServeCommand, f *config.File) {
	var settings []string
	counts := digestFlags()
	if model, err := kong.New(c); err == nil { // it parses nothing: the model names the fields
		for _, flag := range model.Model.Flags {
			if counts[flag.Name] {
				settings = append(settings, fmt.Sprintf("%s=%v", flag.Name, flag.Target.Interface()))
			}
		}
	}
	text := f.Digest(settings)
	d.text.Store(&text)
}

func (d *digest) get() string { return *d.text.Load() }
