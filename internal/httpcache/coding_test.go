package httpcache

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestAcceptEncoding: RFC 9110, section 12.5.3.
func TestAcceptEncoding(t *testing.T) {
	tests := []struct {
		lines string // separated by "|"
		want  Accept // br, zstd, gzip, identity
	}{
		{"gzip, deflate, br, zstd", Accept{1000, 1000, 1000, 1}},
		{"gzip, deflate, br", Accept{1000, 0, 1000, 1}},
		{"gzip, deflate", Accept{0, 0, 1000, 1}},
		{"gzip", Accept{0, 0, 1000, 1}},
		{"", Accept{0, 0, 0, 1}},
		{"identity", Accept{0, 0, 0, 1000}},
		{"br;q=0.5, GZIP;q=0.8, zstd;q=0.001", Accept{500, 1, 800, 1}},
		{"br ; q=0.5", Accept{500, 0, 0, 1}},
		{"br|gzip", Accept{1000, 0, 1000, 1}},
		{"x-gzip", Accept{0, 0, 1000, 1}},
		{"gzip;q=0", Accept{0, 0, 0, 1}},
		{"*", Accept{1000, 1000, 1000, 1}},
		{"*;q=0", Accept{0, 0, 0, 0}},
		{"gzip, *;q=0", Accept{0, 0, 1000, 0}},
		{"gzip;q=0, *", Accept{1000, 1000, 0, 1}},
		{"identity;q=0", Accept{0, 0, 0, 0}},
		{"identity;q=0, br", Accept{1000, 0, 0, 0}},
		{"identity, gzip;q=0.5", Accept{0, 0, 500, 1000}},
		{"*;q=0, identity;q=0.5", Accept{0, 0, 0, 500}},
		{"gzip;q=nonsense, br;q=2, zstd;q=-1", Accept{0, 0, 0, 1}},
		{"gzip;q=0x1p-1, br;q=inf, zstd;q=1e-1", Accept{0, 0, 0, 1}},
		{"gzip;q=1.000, br;q=0.12345", Accept{123, 0, 1000, 1}},
		{"gzip;q=0, gzip", Accept{0, 0, 0, 1}},
		{"deflate, compress", Accept{0, 0, 0, 1}},
		{",, ,gzip,", Accept{0, 0, 1000, 1}},
	}
	for _, tt := range tests {
		if got := AcceptEncoding(strings.Split(tt.lines, "|")); got != tt.want {
			t.Errorf("%q: %v, want %v", tt.lines, got, tt.want)
		}
	}
	if got, want := AcceptEncoding(nil), (Accept{0, 0, 0, 1}); got != want {
		t.Errorf("without the field: %v, want %v", got, want)
	}
}

func TestCodings(t *testing.T) {
	for c := range Identity + 1 {
		if got, ok := ParseCoding(c.String()); got != c || !ok {
			t.Errorf("%s: %s, %v", c, got, ok)
		}
	}
	if c, ok := ParseCoding("deflate"); ok {
		t.Errorf("deflate is %s", c)
	}
}

// member is a member of Accept-Encoding, in the words of RFC 9110.
var member = regexp.MustCompile(`^[ \t]*(?:([!#$%&'*+.^_` + "`" + `|~0-9A-Za-z-]+)(?:[ \t]*;[ \t]*[qQ]=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?))?)?[ \t]*$`)

// acceptedBy is AcceptEncoding by the grammar. ok is false if the field is not valid.
func acceptedBy(lines []string) (a Accept, ok bool) {
	weights := make(map[string]float64)
	for part := range strings.SplitSeq(strings.Join(lines, ","), ",") {
		m := member.FindStringSubmatch(part)
		if m == nil {
			return Accept{}, false
		}
		token, q := strings.ToLower(m[1]), 1.0
		if token == "x-gzip" {
			token = "gzip"
		}
		if m[2] != "" {
			q, _ = strconv.ParseFloat(m[2], 64)
		}
		if _, again := weights[token]; !again {
			weights[token] = q
		}
	}
	star, hasStar := weights["*"]
	for c := range Identity + 1 {
		w, named := weights[c.String()]
		switch {
		case named:
		case c < Identity:
			w = star
		case !hasStar || star > 0:
			w = 0.001
		}
		a[c] = uint16(w*1000 + 0.5)
	}
	return a, true
}

func FuzzAcceptEncoding(f *testing.F) {
	for _, seed := range []string{"gzip, deflate, br, zstd", "br;q=0.5, *;q=0", "identity;q=0|x-gzip", "gzip ; q=0.001", "gzip;q=1.0000", "\tbr\t,,", "br; q=.5"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, field string) {
		lines := strings.Split(field, "|")
		got := AcceptEncoding(lines)
		if want, valid := acceptedBy(lines); valid && got != want {
			t.Fatalf("%q: %v, want %v", field, got, want)
		}
		if slow := acceptEncoding(lines); got != slow {
			t.Fatalf("%q: %v, and %v without the shortcut", field, got, slow)
		}
		for c, w := range got {
			if w > fullWeight {
				t.Fatalf("%q: %s has the weight %d", field, Coding(c), w)
			}
		}
	})
}
