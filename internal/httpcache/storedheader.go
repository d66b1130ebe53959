package httpcache

import (
	"net/http"
	"net/textproto"
	"strings"
)

// Replayed reports whether a field of a response, named in canonical form, is sent to other visitors with
// the stored response. It is not if it describes one connection, one message, one coding, one client, one
// answer of the origin, or the origin's own port: spec/responses.json lists these fields (RFC 9111, section
// 3.1, names some of them).
func Replayed(name string) bool {
	return !ofOneAnswer(name) && !strings.HasPrefix(name, http.TrailerPrefix)
}

// StoredHeader returns a copy of the header fields that are stored: those that are replayed (see
// [Replayed]), and Surrogate-Control, by which the stored response is judged again. Fields that Connection
// names are dropped, and so are a Date that is no date, a Cache-Status that is no valid list or too long,
// and the digests of a content that this cache decodes.
func StoredHeader(h http.Header) http.Header {
	out := make(http.Header, len(h))
	for name, values := range h {
		if Replayed(name) || name == "Surrogate-Control" {
			out[name] = append([]string(nil), values...)
		}
	}
	for _, line := range h["Connection"] {
		for name := range Members(line) {
			delete(out, textproto.CanonicalMIMEHeaderKey(name))
		}
	}
	if _, ok := dateOf(h); !ok {
		delete(out, "Date")
	}
	if upstream := UpstreamStatus(h["Cache-Status"]); upstream != "" {
		out["Cache-Status"] = []string{upstream}
	}
	if len(h["Content-Encoding"]) > 0 {
		DropDigests(out)
	}
	return out
}

// HasDigests reports whether a header has a digest of its content or representation.
func HasDigests(h http.Header) bool {
	return len(h["Repr-Digest"])+len(h["Content-Digest"])+len(h["Digest"])+len(h["Content-Md5"]) > 0
}

// DropDigests deletes the digests of the representation (RFC 9530, section 3; Digest of RFC 3230), which
// another coding of it does not have, and fields of the content.
func DropDigests(h http.Header) {
	delete(h, "Repr-Digest")
	delete(h, "Digest")
	DropContentDigests(h)
}

// DropContentDigests deletes the digests of the content of one message (RFC 9530, section 2; Content-MD5 of
// RFC 1864), which a range of it does not have.
func DropContentDigests(h http.Header) {
	delete(h, "Content-Digest")
	delete(h, "Content-Md5")
}
