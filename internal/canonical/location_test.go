package canonical

import (
	"net/url"
	"testing"
)

// A Location is read as browsers read it. The expected values come from Node.js, new URL(value,
// base).href, except that characters that no URI has are all encoded, and malformed values have none.
func TestLocation(t *testing.T) {
	base, err := url.Parse("http://example.com/a/b?q=1")
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{
		"c":                          "http://example.com/a/c",
		"../c#top":                   "http://example.com/c",
		"?q=2":                       "http://example.com/a/b?q=2",
		"#top":                       "http://example.com/a/b?q=1",
		"//other.example":            "http://other.example/",
		"///other.example/x":         "http://other.example/x",
		`\\other.example\x?q=\`:      "http://other.example/x?q=%5C",
		"https:////other.example/x":  "https://other.example/x",
		"http:c":                     "http://example.com/a/c",
		" \t/c d\x00 ":               "http://example.com/c%20d",
		"/c\td":                      "http://example.com/cd",
		"/é{|}\"":                    "http://example.com/%C3%A9%7B%7C%7D%22",
		"/%2e%2E/c%2Fd":              "http://example.com/c%2Fd",
		"https://Bücher.example:8/x": "https://xn--bcher-kva.example:8/x",
		"http://[2001:db8::1]:80/":   "http://[2001:db8::1]:80/",
		"/x#%zz":                     "http://example.com/x",
		"":                           "",
		" ":                          "",
		"/%zz":                       "",
		"ftp://example.com/":         "",
		"javascript:alert(1)":        "",
		"http://example.com:x/":      "",
	} {
		u, ok := Location(base, value)
		got := ""
		if ok {
			got = u.String()
		}
		if got != want {
			t.Errorf("%q leads to %q, want %q", value, got, want)
		}
	}
}

func FuzzLocation(f *testing.F) {
	base := &url.URL{Scheme: "http", Host: "example.com", Path: "/a/b"}
	for _, s := range []string{"c", "//x", `https:\\x\y`, "/%2e%2e/é?q#f", "http:[::1]", "https://[::1]:8080/%zz"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		u, ok := Location(base, value)
		if !ok {
			return
		}
		again, ok := Location(base, u.String())
		if u.Scheme != "http" && u.Scheme != "https" || u.Path == "" || u.Fragment != "" || ok && again.String() != u.String() {
			t.Errorf("%q leads to %q, and that to %q", value, u, again)
		}
	})
}
