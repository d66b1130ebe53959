package httpcache

import (
	"net/http"
	"net/textproto"
	"slices"
	"strings"
)

// Conditions returns the fields that make a request for a page conditional on the validators of
// its stored response (RFC 9111, section 4.3.1): If-None-Match, if etag, the entity tag that its
// origin gave it, is not empty; and If-Modified-Since, if it has a valid Last-Modified. Nil:
// there is no validator.
func Conditions(etag string, stored http.Header) http.Header {
	conditions := make(http.Header, 2)
	if etag != "" {
		conditions["If-None-Match"] = []string{etag}
	}
	if lines := stored["Last-Modified"]; len(lines) == 1 {
		if _, ok := ParseDate(lines[0]); ok {
			conditions["If-Modified-Since"] = []string{lines[0]}
		}
	}
	if len(conditions) == 0 {
		return nil
	}
	return conditions
}

// Validates reports whether a 304 (Not Modified) is about a stored response (RFC 9111, section
// 4.3.4): its first validator, which is its entity tag or else its Last-Modified, is the validator of the
// stored response. A 304 without a validator, as some origins send it, can only be about the one
// response that the request named.
func Validates(etag string, stored, notModified http.Header) bool {
	if lines := notModified["Etag"]; len(lines) > 0 {
		if len(lines) > 1 || !ValidETag(lines[0]) {
			return false
		}
		if etag != "" {
			return matchesWeakly(lines[0], etag)
		}
		return strings.HasPrefix(lines[0], "W/") // the stored response has no tag that a strong one could be
	}
	if lines := notModified["Last-Modified"]; len(lines) > 0 {
		mine := stored["Last-Modified"]
		return len(lines) == 1 && len(mine) == 1 && sameDate(lines[0], mine[0])
	}
	return true
}

func sameDate(a, b string) bool {
	t, ok := ParseDate(a)
	u, valid := ParseDate(b)
	return ok && valid && t.Equal(u)
}

// Freshen returns the header of a stored response after a 304 has validated it (RFC 9111,
// sections 3.2 and 4.3.4): fields of the 304 replace fields of the same name, except those that
// describe the content, which the cache may have decoded, and policies with a nonce, which is not
// that in the content. Date is the Date of the 304, if it has one, and Cache-Status is of the request
// that the 304 answers. For etag see [Conditions]. Neither header is changed.
func Freshen(etag string, stored, notModified http.Header) http.Header {
	fresh := make(http.Header, len(stored)+len(notModified))
	for name, values := range stored {
		fresh[name] = append([]string(nil), values...)
	}
	delete(fresh, "Date")
	delete(fresh, "Cache-Status")
	for name, values := range notModified {
		if describesContent(textproto.CanonicalMIMEHeaderKey(name), values) {
			continue
		}
		fresh[name] = append([]string(nil), values...)
	}
	if etag != "" {
		fresh["Etag"] = []string{etag} // of the stored response: a 304 may have a weak form of it
	}
	return fresh
}

// describesContent reports whether a field of a 304 is about content that the stored response does not
// have: its coding, its digests, or the nonce of its scripts (Content Security Policy Level 3, section 7.1).
func describesContent(name string, values []string) bool {
	switch name {
	case "Content-Encoding", "Content-Length", "Content-Range", "Transfer-Encoding", "Trailer",
		"Repr-Digest", "Content-Digest", "Digest", "Content-Md5":
		return true
	case "Content-Security-Policy", "Content-Security-Policy-Report-Only":
		return len(Nonces(values)) > 0
	}
	return false
}

// Nonces returns the nonces in the lines of a Content-Security-Policy, each once, in their order.
func Nonces(lines []string) []string {
	var nonces []string
	for _, line := range lines {
		for _, source := range strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == ';' || r == ',' || r == '\t' }) {
			if len(source) < len("'nonce-'") || !strings.EqualFold(source[:len("'nonce-")], "'nonce-") {
				continue
			}
			if nonce := strings.TrimSuffix(source[len("'nonce-"):], "'"); nonce != "" && !slices.Contains(nonces, nonce) {
				nonces = append(nonces, nonce)
			}
		}
	}
	return nonces
}
