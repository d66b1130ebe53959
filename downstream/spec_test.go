package downstream_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/facetheory/isr/downstream"
)

func TestParseSpec(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]downstream.Spec{
		"cdn=cloudfront:E123ABC":                          {Name: "cdn", Kind: "cloudfront", Address: "E123ABC"},
		"cdn=cloudfront:E123ABC?tags=on":                  {Name: "cdn", Kind: "cloudfront", Address: "E123ABC", Tags: true},
		"edge=fastly:SU1Z":                                {Name: "edge", Kind: "fastly", Address: "SU1Z"},
		"edge=fastly:SU1Z?endpoint=http://127.0.0.1:9/":   {Name: "edge", Kind: "fastly", Address: "SU1Z", Endpoint: "http://127.0.0.1:9"},
		"cf-2=cloudflare:023e105f4ecef8ad9ca31a8372d0c35": {Name: "cf-2", Kind: "cloudflare", Address: "023e105f4ecef8ad9ca31a8372d0c35"},
		"dc2=isr:https://isr.example:9180":                {Name: "dc2", Kind: "isr", Address: "https://isr.example:9180"},
		"v1=varnish:http://10.0.0.5":                      {Name: "v1", Kind: "varnish", Address: "http://10.0.0.5"},
	} {
		got, err := downstream.ParseSpec(text)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                                       "expected NAME=KIND:ADDRESS",
		"cdn":                                    "expected NAME=KIND:ADDRESS",
		"CDN=fastly:A":                           "lower-case letters",
		"=fastly:A":                              "lower-case letters",
		"c=akamai:A":                             "unknown kind",
		"c=fastly:":                              "letters and digits",
		"c=fastly:a/b":                           "letters and digits",
		"c=fastly:A?tags=on":                     "unknown option",
		"c=cloudfront:A?tags=yes":                "unknown option",
		"c=cloudfront:A?tags=on&tags=on":         "repeated",
		"c=fastly:A?endpoint=http://api.x":       "https://",
		"c=isr:http://isr.example":               "https://",
		"c=isr:isr.example":                      "not a URL",
		"c=isr:https://user:" + secret + "@host": "user name",
		"c=varnish:http://h?x=1":                 "unknown option",
		"c=varnish:ftp://h":                      "not a URL",
	} {
		_, err := downstream.ParseSpec(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v, want %q and no secret", text, err, want)
		}
	}
}

func TestSpecToken(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(" from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const name = "ISR_DOWNSTREAM_EDGE_1_TOKEN"
	for _, test := range []struct {
		kind       string
		env        map[string]string
		want, fail string
	}{
		{"fastly", map[string]string{name: secret}, secret, ""},
		{"fastly", map[string]string{name + "_FILE": file}, "from-file", ""},
		{"varnish", nil, "", ""},
		{"cloudfront", nil, "", ""},
		{"fastly", nil, "", "set " + name},
		{"fastly", map[string]string{name: secret, name + "_FILE": file}, "", "both set"},
		{"fastly", map[string]string{name + "_FILE": file + "x"}, "", name + "_FILE"},
		{"fastly", map[string]string{name: "two " + secret}, "", "visible ASCII"},
		{"cloudfront", map[string]string{name: secret}, "", "credentials of AWS"},
	} {
		s := downstream.Spec{Name: "edge-1", Kind: test.kind}
		token, err := s.Token(func(name string) string { return test.env[name] })
		if test.fail != "" {
			if err == nil || !strings.Contains(err.Error(), test.fail) || strings.Contains(err.Error(), secret) {
				t.Errorf("%s, %v: %v, want %q and no secret", test.kind, test.env, err, test.fail)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.kind, err)
			continue
		}
		if token == nil {
			if test.want != "" {
				t.Errorf("%s: no token, want %s", test.kind, test.want)
			}
			continue
		}
		if got, err := token(); err != nil || got != test.want {
			t.Errorf("%s: token %q, %v; want %q", test.kind, got, err, test.want)
		}
	}
	// A file is read for each delivery, so that the token can be replaced.
	token, err := downstream.Spec{Name: "edge-1", Kind: "isr"}.Token(func(n string) string { return map[string]string{name + "_FILE": file}[n] })
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("replaced"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := token(); got != "replaced" {
		t.Errorf("token %q, %v after it was replaced", got, err)
	}
}
