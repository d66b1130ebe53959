package httpcache

import (
	"strings"
	"testing"
)

func TestNegotiateLanguage(t *testing.T) {
	for _, tt := range []struct{ tags, field, want string }{
		{"en de", "", "en"},
		{"en de", "de", "de"},
		{"en de", "DE", "de"},
		{"en de", "de-AT", "de"},
		{"en de", "de-AT,de;q=0.9,en;q=0.8", "de"},
		{"en de", "en;q=0.8, de;q=0.9", "de"},
		{"en de", "en;q=0.9, de;q=0.8", "en"},
		{"en de", "de, en", "de"},               // of equal weights, the first
		{"en de", "fr, de;q=0.1", "de"},         // the only one there is
		{"en de", "fr", "en"},                   // none: the default
		{"en de", "fr, *;q=0.5", "en"},          // any
		{"pt-BR en", "*", "pt-BR"},              // any: the default
		{"en de", "en;q=0, *", "de"},            // any but English
		{"en de", "de;q=0", "en"},               // nothing else is asked for
		{"en de", "de;q=0, en;q=0", "en"},       // nothing is acceptable
		{"en de", "de;q=2", "en"},               // not a weight
		{"en de", "de;q=NaN, en;q=0.1", "en"},   // not a weight
		{"en de", ", ,;q=1,de", "de"},           // empty members
		{"en de", "deutsch, den", "en"},         // no subtags of de
		{"en pt-BR pt", "pt", "pt"},             // exact before a dialect
		{"en pt pt-BR", "pt-BR", "pt-BR"},       // exact before the language
		{"en pt-BR pt-PT", "pt", "pt-BR"},       // a range matches what it is a prefix of
		{"en zh-Hant", "zh-Hant-TW", "zh-Hant"}, // a dialect of it
		{"en de", strings.Repeat("x,", 31) + "de", "de"},
		{"en de", strings.Repeat("x,", 32) + "de", "en"}, // beyond what is considered
	} {
		tags := strings.Fields(tt.tags)
		if got := tags[NegotiateLanguage([]string{tt.field}, tags)]; got != tt.want {
			t.Errorf("%q of %q: %q, want %q", tt.field, tt.tags, got, tt.want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { NegotiateLanguage([]string{"de-AT, de;q=0.9, en;q=0.8"}, []string{"en", "de"}) }); n > 0 {
		t.Errorf("the negotiation allocates %v times", n)
	}
}
