package config_test

import (
	"strings"
	"testing"

	"github.com/facetheory/isr/internal/config"
)

// What differs between two files is named, with its values unless they may be secret, and whether it needs a restart.
func TestChanges(t *testing.T) {
	const text = "memory: 1MiB\nlisten: [{address: \"127.0.0.1:80\", acme: true}]\norigins: {a: {url: \"http://a\"}}\nstore: {disk: 1GiB}\nhosts: [a]\nlease: 30s\nacme: {email: ops@a, agree: true}\nlog: {level: info}\ndynamodb: {address: \"127.0.0.1:1\", access_key: {file: /run/k}, secret_key: {file: /run/a}}\ndownstream: {cdn: {to: \"varnish:http://a\"}}\n"
	parse := func(text string) *config.File {
		f, err := config.Parse("isr.yaml", []byte(text), environment)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for _, c := range []struct {
		from, to string
		want     string // the changes; the ones that need a restart end in †
	}{
		{"1MiB", "1MiB", ""},
		{"url: \"http://a", "url: \"http://b", "origins"},
		{"hosts: [a]", "hosts: [b]", "hosts (from a to b)"},
		{"level: info", "level: debug, format: json", "log.format (from text to json), log.level (from info to debug)"},
		{"1MiB", "2MiB", "memory (from 1MiB to 2MiB)"},
		{"memory: 1MiB", "memory: 0", "memory (from 1MiB to 0)†"},
		{"1GiB", "2GiB", "store.disk (from 1GiB to 2GiB)"},
		{"disk: 1GiB", "data: /x", "store.data (from ./isr-data to /x)†, store.disk (from 1GiB to unset)"},
		{"disk: 1GiB", "disk: 1GiB, timeout: 1s", "store.timeout (from 300ms to 1s)†"},
		{"/run/a", "/run/b", "dynamodb.secret_key†"},
		{"varnish:http://a", "varnish:http://b", "downstream"},
		{"lease: 30s", "lease: 31s", "lease (from 30s to 31s)†"},
	} {
		var got []string
		for _, change := range config.Changes(parse(text), parse(strings.ReplaceAll(text, c.from, c.to))) {
			one := change.String()
			if change.NeedsRestart {
				one += "†"
			}
			got = append(got, one)
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s to %s: %q, want %q", c.from, c.to, got, c.want)
		}
	}
}
