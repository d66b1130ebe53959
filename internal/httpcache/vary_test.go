package httpcache

import (
	"net/textproto"
	"strings"
	"testing"
)

// RFC 9111, section 4.1: values that select the same response are equal once normalised.
func TestRFC9111Section4_1Normalize(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lines []string
		want  string
	}{
		// Any header: lines are joined, and outer whitespace is removed.
		{"X-Device", nil, ""},
		{"X-Device", []string{" \tPhone "}, "Phone"},
		{"X-Device", []string{"a ", "\tb"}, "a, b"},
		{"X-Device", []string{"b,a"}, "b,a"},
		{"X-Device", []string{"a", ""}, "a,"},
		{"User-Agent", []string{"Mozilla/5.0 (X11)"}, "Mozilla/5.0 (X11)"},
		{"Sec-Fetch-Mode", []string{"navigate "}, "navigate"},
		{"Dnt", []string{"1"}, "1"},

		// Accept-Language
		{"Accept-Language", []string{"de"}, "de"},
		{"Accept-Language", []string{"DE"}, "de"},
		{"Accept-Language", []string{"de-at"}, "de-AT"},
		{"Accept-Language", []string{"zh-hant-tw"}, "zh-Hant-TW"},
		{"Accept-Language", []string{"en-u-ca-gregory"}, "en-u-ca-gregory"},
		{"Accept-Language", []string{"en-*"}, "en-*"},
		{"Accept-Language", []string{"de,en;q=0.8"}, "de, en;q=0.8"},
		{"Accept-Language", []string{"de;q=1.0 , en ; Q=0.800"}, "de, en;q=0.8"},
		{"Accept-Language", []string{"en;q=0.8,de"}, "de, en;q=0.8"},
		{"Accept-Language", []string{"de", "en;q=0.8"}, "de, en;q=0.8"},
		{"Accept-Language", []string{"de,, en;q=0.8,"}, "de, en;q=0.8"},
		{"Accept-Language", []string{"de, en"}, "de, en"}, // some servers follow the order
		{"Accept-Language", []string{"en, de"}, "en, de"},
		{"Accept-Language", []string{"de, de, en;q=0"}, "de, en;q=0"},
		{"Accept-Language", []string{"de;q=0.85, en;q=0.125"}, "de;q=0.85, en;q=0.125"},
		{"Accept-Language", []string{"*"}, ""},
		{"Accept-Language", []string{"*;q=1.000"}, ""},
		{"Accept-Language", []string{"*;q=0.5"}, "*;q=0.5"},
		{"Accept-Language", []string{"*, de"}, "*, de"},
		{"Accept-Language", []string{"DE;q=2"}, "DE;q=2"}, // wrong syntax: as it is
		{"Accept-Language", []string{"DE;q=0.1234"}, "DE;q=0.1234"},
		{"Accept-Language", []string{"DE;q=1.5"}, "DE;q=1.5"},
		{"Accept-Language", []string{"DE;q="}, "DE;q="},
		{"Accept-Language", []string{"DE_AT"}, "DE_AT"},
		{"Accept-Language", []string{"DE;level=1"}, "DE;level=1"},
		{"Accept-Language", []string{" D\"E, en"}, "D\"E, en"},

		// Accept
		{"Accept", []string{"*/*"}, ""},
		{"Accept", []string{"*/*;q=1"}, ""},
		{"Accept", []string{"Text/HTML"}, "text/html"},
		{"Accept", []string{"text/html,application/xml;q=0.9,*/*;q=0.8"}, "text/html, application/xml;q=0.9, */*;q=0.8"},
		{"Accept", []string{"*/*;q=0.80, application/xml ;q=0.9, text/html"}, "text/html, application/xml;q=0.9, */*;q=0.8"},
		{"Accept", []string{"text/html, application/json"}, "text/html, application/json"},
		{"Accept", []string{"application/json, text/html"}, "application/json, text/html"},
		{"Accept", []string{`text/html; Level=1;q=0.5`}, "text/html;level=1;q=0.5"},
		{"Accept", []string{`text/plain; x="a,b"`}, `text/plain;x="a,b"`},
		{"Accept", []string{`text/plain; x="a;b"`}, `text/plain; x="a;b"`},
		{"Accept", []string{"text/html;q=0.5;ext=1"}, "text/html;q=0.5;ext=1"},
		{"Accept", []string{"TEXT"}, "TEXT"},

		// Accept-Charset
		{"Accept-Charset", []string{"UTF-8, *;q=0.5"}, "utf-8, *;q=0.5"},
		{"Accept-Charset", []string{"*"}, ""},

		// Client hints: browsers shuffle the brands
		{"Sec-Ch-Ua", []string{`"Chromium";v="120", "Not_A Brand";v="8"`}, `"Chromium";v="120", "Not_A Brand";v="8"`},
		{"Sec-Ch-Ua", []string{`"Not_A Brand";v="8","Chromium";v="120"`}, `"Chromium";v="120", "Not_A Brand";v="8"`},
		{"Sec-Ch-Ua", []string{`"Not, A Brand";v="8"`}, `"Not, A Brand";v="8"`},
		{"Sec-Ch-Ua", []string{`"b, "a"`}, `"b, "a"`},
		{"Sec-Ch-Ua-Mobile", []string{"?1"}, "?1"},

		// Prefer
		{"Prefer", []string{"Respond-Async, wait=10"}, "respond-async, wait=10"},
		{"Prefer", []string{"wait=10", "RESPOND-async"}, "respond-async, wait=10"},
		{"Prefer", []string{"wait=10, wait=20"}, "wait=10"},
		{"Prefer", []string{"return=minimal; foo=\"a, b\""}, "return=minimal; foo=\"a, b\""},
		{"Prefer", []string{"=1, A"}, "=1, A"},

		{"Save-Data", []string{"ON"}, "on"},
		{"Save-Data", []string{"\xffON"}, "\xffON"},       // not in UTF-8
		{"Accept-Language", []string{"\u212a"}, "\u212a"}, // whose lower case is the letter k
		{"Prefer", []string{"\u212a"}, "\u212a"},
		{"X-Forwarded-Proto", []string{"HTTPS"}, "https"},

		// Bounds
		{"Accept-Language", []string{strings.Repeat("D,", 65)}, strings.Repeat("D,", 65)},
		{"Accept-Language", []string{strings.Repeat("D", 8) + strings.Repeat(" ", 5000) + ",d"}, strings.Repeat("D", 8) + strings.Repeat(" ", 5000) + ",d"},
	} {
		if got := Normalize(tt.name, tt.lines); got != tt.want {
			t.Errorf("%s %q: %q, want %q", tt.name, tt.lines, got, tt.want)
		}
	}
}

func TestNormalizeOfOneLineDoesNotAllocate(t *testing.T) {
	lines := []string{" phone"}
	if n := testing.AllocsPerRun(100, func() { Normalize("X-Device", lines) }); n > 0 {
		t.Errorf("it allocates %v times", n)
	}
}

// A normalised value is normal, does not depend on how a list is split into lines, and can be
// sent as a field.
func FuzzNormalize(f *testing.F) {
	for _, name := range []string{"Accept", "Accept-Language", "Accept-Charset", "Sec-Ch-Ua", "Prefer", "Save-Data", "X-Other"} {
		f.Add(name, "text/html;q=0.5, */*;level=1", "de-AT;q=1.0,*")
		f.Add(name, `"a, b";v="1"`, `wait=10; x="`)
		f.Add(name, "", " ")
	}
	f.Fuzz(func(t *testing.T, name, one, two string) {
		name = textproto.CanonicalMIMEHeaderKey(name)
		got := Normalize(name, []string{one, two})
		if again := Normalize(name, []string{got}); again != got {
			t.Errorf("%s: %q is normalised again, to %q", name, got, again)
		}
		if joined := Normalize(name, []string{trimOWS(one) + ", " + trimOWS(two)}); joined != got {
			t.Errorf("%s: %q as lines, %q joined", name, got, joined)
		}
		if len(got) > len(one)+len(two)+2+3*maxMembers {
			t.Errorf("%s: %d bytes became %d", name, len(one)+len(two), len(got))
		}
	})
}
