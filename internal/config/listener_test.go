package config_test

import (
	"slices"
	"testing"

	"github.com/facetheory/isr/internal/config"
)

// Which hosts get certificates, and at which listeners they are proved.
func TestACME(t *testing.T) {
	const rest = "origins: {site: {url: \"http://127.0.0.1:3000\"}}\n"
	for _, c := range []struct {
		text  string
		hosts []string
		at    []bool // for each listener
	}{
		{"listen: [{address: \":80\"}]\nhosts: [a.example]\n", nil, []bool{false}},
		{"listen: [{address: \":443\", acme: true}, {address: \":80\"}]\nhosts: [A.example, \"a.example:8443\", b.example]\nacme: {email: a@example.com, agree: true}\n", []string{"a.example", "b.example"}, []bool{true, true}},
		{"listen: [{address: \":443\", acme: true}, {address: \":8080\"}]\nhosts: [a.example]\nacme: {email: a@example.com, agree: true}\n", []string{"a.example"}, []bool{true, false}},
		{"listen: [{address: \":443\", acme: true}, {address: \":8080\"}]\nhosts: [a.example]\nacme: {email: a@example.com, agree: true, challenges: http}\n", []string{"a.example"}, []bool{false, true}},
		{"listen: [{address: \":443\", acme: true}, {address: \":80\"}]\nhosts: [a.example]\nacme: {email: a@example.com, agree: true, challenges: [tls-alpn]}\n", []string{"a.example"}, []bool{true, false}},
		{"listen: [{address: \":443\", acme: true}, {address: \":80\", tls: [{cert: a, key: b}]}]\nhosts: [a.example]\nacme: {email: a@example.com, agree: true}\n", []string{"a.example"}, []bool{true, false}},
	} {
		f, err := config.Parse("isr.yaml", []byte(c.text+rest), environment)
		if err != nil {
			t.Errorf("%v\nin %s", err, c.text)
			continue
		}
		if got := f.CertificateHosts(); !slices.Equal(got, c.hosts) {
			t.Errorf("hosts %q in %s", got, c.text)
		}
		for i, want := range c.at {
			if got := f.AnswersChallenges(f.Listen[i]); got != want {
				t.Errorf("listener %d answers challenges: %t in %s", i, got, c.text)
			}
		}
	}
}
