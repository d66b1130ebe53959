package httpcache

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// RFC 8288, section 3: links, and the relation types of each.
func TestEarlyHints(t *testing.T) {
	tests := []struct {
		name  string
		lines []string
		want  []string
	}{
		{"none", nil, nil},
		{"empty", []string{"", " , ,"}, nil},
		{"a token", []string{"</a.css>; rel=preload; as=style"}, []string{"</a.css>; rel=preload; as=style"}},
		{"a quoted string", []string{`</a.css>;rel="preload"`}, []string{`</a.css>;rel="preload"`}},
		{"each relation", []string{"<a>;rel=preload,<b>;rel=preconnect", "<c>;rel=dns-prefetch, <d>;rel=modulepreload"}, []string{"<a>;rel=preload", "<b>;rel=preconnect", "<c>;rel=dns-prefetch", "<d>;rel=modulepreload"}},
		{"other relations", []string{"<a>; rel=next, <b>; rel=canonical, <c>; rel=stylesheet, <d>; rel=prefetch, <e>; rel=preloads"}, nil},
		{"several types", []string{`<a>; rel="stylesheet  PreLoad"`}, []string{`<a>; rel="stylesheet  PreLoad"`}},
		{"an escaped character", []string{`<a>; rel="pre\load"`}, []string{`<a>; rel="pre\load"`}},
		{"letter case", []string{"<a>; REL=Preload"}, []string{"<a>; REL=Preload"}},
		{"white space", []string{"\t<a> ;\trel = preload ;"}, []string{"<a> ;\trel = preload ;"}},
		{"a parameter without value", []string{"<a>; nopush;; crossorigin; rel=preload"}, []string{"<a>; nopush;; crossorigin; rel=preload"}},
		{"only the first rel counts", []string{"<a>; rel=next; rel=preload, <b>; rel=preload; rel=next", `<c>; rel=""; rel=preload, <d>; rel; rel=preload`}, []string{"<b>; rel=preload; rel=next"}},
		{"commas, quotes and semicolons in a target", []string{`</a,b";rel=next>; rel=preload, <c>; rel=next`}, []string{`</a,b";rel=next>; rel=preload`}},
		{"commas and brackets in a quoted string", []string{`<a>; title="x, <y>; \", z"; rel=preload, <b>; rel=preconnect`}, []string{`<a>; title="x, <y>; \", z"; rel=preload`, "<b>; rel=preconnect"}},
		{"rel in a quoted string", []string{`<a>; title="; rel=preload"`}, nil},
		{"rel in a target", []string{"<a;rel=preload>"}, nil},
		{"no target", []string{"a; rel=preload, ; rel=preload, rel=preload"}, nil},
		{"an unclosed target", []string{"<a; rel=preload, <b>"}, nil},
		{"an unclosed quoted string", []string{`<a>; rel=preload; title="x, <b>; rel=preload`, "<c>; rel=preload"}, []string{"<c>; rel=preload"}},
		{"text after the target", []string{"<a> b; rel=preload"}, nil},
		{"text after a quoted string", []string{`<a>; rel="preload" b`}, nil},
		{"no name", []string{"<a>; =x; rel=preload"}, nil},
		{"a name that is no token", []string{"<a>; x y; rel=preload"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := EarlyHints(tt.lines); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestEarlyHintsAreBounded(t *testing.T) {
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf("<%d>; rel=preload", i))
	}
	if got := EarlyHints([]string{strings.Join(many, ",")}); !slices.Equal(got, many[:32]) {
		t.Errorf("got %d links of 100", len(got))
	}
	long := func(n int) string { return "<" + strings.Repeat("a", n-len("<>;rel=preload")) + ">;rel=preload" }
	got := EarlyHints([]string{long(5000), long(4000), long(97), long(96), long(20)})
	if !slices.Equal(got, []string{long(4000), long(96)}) {
		t.Errorf("got %d links: %.300q", len(got), got)
	}
}

func FuzzEarlyHints(f *testing.F) {
	f.Add(`</a,b>; rel="preload x"; title="\"," , <b>;rel=next`, "<c>; REL = preconnect ;;")
	f.Add(`<a>; rel="preload`, `<<>>;rel=preload,"<b>",;=`)
	f.Add("<a>;rel=\"pre\\", "\\")
	f.Fuzz(func(t *testing.T, one, two string) {
		got := EarlyHints([]string{one, two})
		size := 0
		for _, link := range got {
			size += len(link)
			if !strings.Contains(one, link) && !strings.Contains(two, link) {
				t.Fatalf("%q is not in %q or %q", link, one, two)
			}
			if again := EarlyHints([]string{link}); len(again) != 1 || again[0] != link {
				t.Fatalf("%q alone is %q", link, again)
			}
		}
		if len(got) > maxHints || size > maxHintBytes {
			t.Fatalf("%d links of %d bytes", len(got), size)
		}
	})
}
