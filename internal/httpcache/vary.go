package httpcache

import (
	"cmp"
	"slices"
	"strings"
)

// maxNormalized bounds what [Normalize] parses, in bytes of a field's value and in members.
const (
	maxNormalized = 4 << 10
	maxMembers    = 64
)

// Normalize returns the value of a request header, given by its canonical name and its lines,
// as it is compared with others: equal results select the same response (RFC 9111, section
// 4.1). Lines are joined and surrounding whitespace is removed. Headers whose own rules allow
// it are normalised further:
//
//   - Accept, Accept-Language, Accept-Charset: members by descending weight, members of equal
//     weights in their order, which some servers follow; weights in their shortest form; types
//     and charsets in lower case, languages as RFC 5646, section 2.1.1, recommends; repeated
//     members once. "Accept: */*" and a lone "*" are the same as no header.
//   - Sec-CH-UA and Sec-CH-UA-Full-Version-List: members sorted, because browsers shuffle them.
//   - Prefer: names in lower case and sorted; the first of repeated preferences counts (RFC
//     7240, section 2).
//   - Save-Data, X-Forwarded-Proto: lower case.
//
// A value that does not have the syntax of its header, is longer than 4 KiB or has more than
// 64 members is joined and trimmed only. The result is a valid value, with which
// Normalize(name, []string{result}) == result.
func Normalize(name string, lines []string) string {
	value := joinLines(lines)
	if value == "" || len(value) > maxNormalized {
		return value
	}
	switch name {
	case "Accept":
		return normalizePreferences(value, "*/*", mediaRange)
	case "Accept-Language":
		return normalizePreferences(value, "*", languageTag)
	case "Accept-Charset":
		return normalizePreferences(value, "*", charset)
	case "Sec-Ch-Ua", "Sec-Ch-Ua-Full-Version-List":
		return normalizeSet(value)
	case "Prefer":
		return normalizePrefer(value)
	case "Save-Data", "X-Forwarded-Proto":
		if IsToken(value) {
			return strings.ToLower(value)
		}
	}
	return value
}

// joinLines combines the lines of a field (RFC 9110, section 5.3). It allocates only if there
// are several.
func joinLines(lines []string) string {
	switch len(lines) {
	case 0:
		return ""
	case 1:
		return trimOWS(lines[0])
	}
	trimmed := make([]string, 0, len(lines))
	for _, line := range lines {
		trimmed = append(trimmed, trimOWS(line))
	}
	return trimOWS(strings.Join(trimmed, ", "))
}

func trimOWS(s string) string { return strings.Trim(s, " \t") }

// membersOf returns the members of a list; ok is false if a quoted string is not closed, or
// there are too many.
func membersOf(value string) (members []string, ok bool) {
	for member := range Members(value) {
		if members = append(members, member); len(members) > maxMembers {
			return nil, false
		}
	}
	return members, balanced(value)
}

// A preference is a member of a list with weights.
type preference struct {
	text   string // without the weight
	weight int    // in thousandths
}

// normalizePreferences normalises a list with weights (RFC 9110, section 12.4.2). all is the
// member that, alone and with the full weight, is the same as no field. normal returns the
// normal form of a member without its weight; false if it has the wrong syntax.
func normalizePreferences(value, all string, normal func(string) (string, bool)) string {
	members, ok := membersOf(value)
	if !ok {
		return value
	}
	preferences := make([]preference, 0, len(members))
	for _, member := range members {
		text, weight, ok := cutWeight(member)
		if text, ok = normalIf(ok, text, normal); !ok {
			return value
		}
		if !slices.ContainsFunc(preferences, func(p preference) bool { return p.text == text && p.weight == weight }) {
			preferences = append(preferences, preference{text, weight})
		}
	}
	if len(preferences) == 1 && preferences[0] == (preference{all, 1000}) {
		return ""
	}
	slices.SortStableFunc(preferences, func(a, b preference) int { return cmp.Compare(b.weight, a.weight) })
	var b strings.Builder
	for i, p := range preferences {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(p.text)
		writeWeight(&b, p.weight)
	}
	return b.String()
}

func normalIf(ok bool, text string, normal func(string) (string, bool)) (string, bool) {
	if !ok {
		return "", false
	}
	return normal(text)
}

// cutWeight separates a member from its weight, which is the last parameter. ok is false if
// the weight has the wrong syntax, or other parameters follow it.
func cutWeight(member string) (text string, thousandths int, ok bool) {
	text, thousandths = member, 1000
	if i := strings.LastIndexByte(member, ';'); i >= 0 {
		if name, q, found := strings.Cut(trimOWS(member[i+1:]), "="); found && strings.EqualFold(name, "q") {
			thousandths, ok = parseWeight(q)
			return trimOWS(member[:i]), thousandths, ok
		}
	}
	return text, thousandths, true
}

// parseWeight parses a qvalue: 0 to 1 with at most three digits after the point.
func parseWeight(q string) (thousandths int, ok bool) {
	whole, fraction, _ := strings.Cut(q, ".")
	if whole != "0" && whole != "1" || len(fraction) > 3 {
		return 0, false
	}
	for i := range 3 {
		digit := 0
		if i < len(fraction) {
			if fraction[i] < '0' || fraction[i] > '9' {
				return 0, false
			}
			digit = int(fraction[i] - '0')
		}
		thousandths = 10*thousandths + digit
	}
	if whole == "1" {
		return 1000, thousandths == 0
	}
	return thousandths, true
}

func writeWeight(b *strings.Builder, thousandths int) {
	switch thousandths {
	case 1000:
	case 0:
		b.WriteString(";q=0")
	default:
		digits := [3]byte{byte('0' + thousandths/100), byte('0' + thousandths/10%10), byte('0' + thousandths%10)}
		b.WriteString(";q=0.")
		b.WriteString(strings.TrimRight(string(digits[:]), "0"))
	}
}

// mediaRange normalises a media range with its parameters (RFC 9110, section 12.5.1). A
// parameter q that is not the last one is not a weight that all servers understand alike.
func mediaRange(text string) (string, bool) {
	parts := strings.Split(text, ";")
	for i, part := range parts {
		part = trimOWS(part)
		name, value, found := strings.Cut(part, "=")
		switch {
		case i == 0:
			kind, subtype, found := strings.Cut(part, "/")
			if !found || !IsToken(kind) || !IsToken(subtype) {
				return "", false
			}
			parts[i] = strings.ToLower(part)
		case !found || !IsToken(name) || strings.EqualFold(name, "q"):
			return "", false
		case !IsToken(value) && !isSimpleQuoted(value):
			return "", false
		default:
			parts[i] = strings.ToLower(name) + "=" + value
		}
	}
	return strings.Join(parts, ";"), true
}

// isSimpleQuoted reports whether s is a quoted string without ';', at which media ranges
// are split.
func isSimpleQuoted(s string) bool {
	return len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' && !strings.ContainsAny(s[1:len(s)-1], `"\;`)
}

// languageTag normalises a language range (RFC 4647, section 2.1): subtags of two letters are
// regions in upper case, subtags of four letters, which are scripts, in title case, except at the beginning
// and after a singleton; all others are in lower case.
func languageTag(text string) (string, bool) {
	if text == "*" || !IsToken(text) {
		return text, text == "*"
	}
	subtags := strings.Split(strings.ToLower(text), "-")
	extension := false
	for i, subtag := range subtags {
		if subtag == "" || len(subtag) > 8 || strings.Trim(subtag, "abcdefghijklmnopqrstuvwxyz0123456789*") != "" {
			return "", false
		}
		switch {
		case i == 0 || extension:
		case len(subtag) == 2:
			subtags[i] = strings.ToUpper(subtag)
		case len(subtag) == 4:
			subtags[i] = strings.ToUpper(subtag[:1]) + subtag[1:]
		}
		extension = extension || len(subtag) == 1
	}
	return strings.Join(subtags, "-"), true
}

func charset(text string) (string, bool) { return strings.ToLower(text), IsToken(text) }

// normalizeSet sorts the members of a list whose order has no meaning.
func normalizeSet(value string) string {
	members, ok := membersOf(value)
	if !ok {
		return value
	}
	slices.Sort(members)
	return strings.Join(members, ", ")
}

func normalizePrefer(value string) string {
	members, ok := membersOf(value)
	if !ok {
		return value
	}
	kept := make(map[string]string, len(members))
	for _, member := range members {
		end := strings.IndexAny(member, "=; \t")
		if end < 0 {
			end = len(member)
		}
		if !IsToken(member[:end]) {
			return value
		}
		name := strings.ToLower(member[:end])
		if _, again := kept[name]; !again {
			kept[name] = name + member[end:]
		}
	}
	members = members[:0]
	for _, member := range kept {
		members = append(members, member)
	}
	slices.Sort(members)
	return strings.Join(members, ", ")
}

// IsToken reports whether s is a token (RFC 9110, section 5.6.2).
func IsToken(s string) bool {
	return s != "" && strings.IndexFunc(s, func(c rune) bool {
		return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	}) < 0
}
