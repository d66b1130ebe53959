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
type digest struct {
	settings []string // of flags
	text     atomic.Pointer[string]
}

// newDigest returns the digest of a file and of the flags, which the file has set.
func newDigest(k *kong.Context, f *config.File) *digest {
	d := new(digest)
	for _, flag := range k.Selected().Flags {
		if digestFlags()[flag.Name] {
			d.settings = append(d.settings, fmt.Sprintf("%s=%v", flag.Name, flag.Target.Interface()))
		}
	}
	d.set(f)
	return d
}

func (d *digest) set(f *config.File) {
	text := f.Digest(d.settings)
	d.text.Store(&text)
}

func (d *digest) get() string { return *d.text.Load() }
