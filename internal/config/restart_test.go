package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/facetheory/isr/internal/config"
)

func TestNeedRestart(t *testing.T) {
	const text = "memory: 1MiB\nlisten: [{address: \"127.0.0.1:80\", acme: true}]\norigins: {a: {url: \"http://a\"}}\nstore: {disk: 1GiB}\nhosts: [a]\nacme: {email: ops@a, agree: true}\nlog: {level: info}\n"
	parse := func(text string) *config.File {
		f, err := config.Parse("isr.yaml", []byte(text), environment)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for _, c := range []struct {
		from, to string
		want     []string
	}{
		{"1MiB", "1MiB", nil},
		{"http://a", "http://b", nil},
		{"hosts: [a]", "hosts: [b]", nil},
		{"level: info", "level: debug", nil},
		{"1MiB", "2MiB", []string{"memory"}},
		{"1GiB", "2GiB", []string{"store"}},
		{"127.0.0.1:80", "127.0.0.1:81", []string{"listen"}},
		{"ops@a", "ops@b", []string{"acme"}},
	} {
		got := config.NeedRestart(parse(text), parse(strings.ReplaceAll(text, c.from, c.to)))
		if !slices.Equal(got, c.want) {
			t.Errorf("%s to %s needs a restart for %v, want %v", c.from, c.to, got, c.want)
		}
	}
}
