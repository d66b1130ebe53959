package doctor

import (
	"regexp"
	"strings"
	"unicode"
)

// hidden stands for what is left out.
const hidden = "[…]"

// maxText bounds a text of a finding, in bytes.
const maxText = 600

// A Redactor removes secrets from texts: the values that it was given, and what has the form
// of one: user information of URLs, tokens in queries, credentials in header fields, keys,
// accounts and sessions of AWS. It also removes control characters, which a server may have
// sent to change what a terminal shows, and bounds the length. It is safe for concurrent use.
type Redactor struct {
	values *strings.Replacer
	forms  []form
}

type form struct {
	pattern *regexp.Regexp
	with    string
}

// NewRedactor returns a redactor of secrets. Secrets of less than four bytes are not looked for.
func NewRedactor(secrets ...string) *Redactor {
	var pairs []string
	for _, s := range secrets {
		if len(s) >= 4 {
			pairs = append(pairs, s, hidden)
		}
	}
	compile := func(pattern, with string) form { return form{regexp.MustCompile(pattern), with} }
	return &Redactor{values: strings.NewReplacer(pairs...), forms: []form{
		compile(`,? ?\b(?:RequestID|HostID): [^,]*`, ""),
		compile(`(://)[^/?#\s"']*@`, "${1}"+hidden+"@"),
		compile(`([?&][^=&\s"'#]*(?i:token|key|secret|sig|auth|pass|session|code|credential|jwt)[^=&\s"'#]*=)[^&\s"'#]*`, "${1}"+hidden),
		compile(`([?&][^=&\s"'#]*=)[^&\s"'#]{20,}`, "${1}"+hidden),
		compile(`(?i)\b((?:proxy-)?authorization|cookie|set-cookie|x-api-key|x-amz-security-token)(\s*[:=]\s*)[^\r\n]*`, "${1}${2}"+hidden),
		compile(`(?i)\b(bearer|basic|digest|negotiate)\s+[A-Za-z0-9+/=._~-]{6,}`, "${1} "+hidden),
		compile(`\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}\b`, hidden),
		compile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_.-]+`, hidden),
		compile(`\barn:(aws[a-z-]*):(iam|sts):[^:\s]*:[^:\s]*:[^\s,"']+`, "arn:${1}:${2}:"+hidden),
		compile(`\barn:(aws[a-z-]*):([a-z0-9-]*):([a-z0-9-]*):[0-9]{12}:`, "arn:${1}:${2}:${3}:"+hidden+":"),
	}}
}

// Text returns a text without secrets, in one line.
func (r *Redactor) Text(text string) string {
	text = r.values.Replace(text)
	for _, f := range r.forms {
		text = f.pattern.ReplaceAllString(text, f.with)
	}
	text = strings.Map(func(c rune) rune {
		switch {
		case c == '\n' || c == '\r' || c == '\t':
			return ' '
		case !unicode.IsPrint(c):
			return unicode.ReplacementChar
		}
		return c
	}, text)
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}
