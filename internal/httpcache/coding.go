package httpcache

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
)

const (
	// Bodies outside these bounds, in bytes, are not compressed: shorter ones save nothing,
	// longer ones would delay the publish.
	minGzip = 1 << 10
	maxGzip = 4 << 20
)

// ErrTooLarge: a body exceeded its limit while it was read or decoded.
var ErrTooLarge = errors.New("the body is too large")

// Decodable reports whether [Decode] can decode a Content-Encoding: none, identity or gzip.
// Pages are requested and stored without a coding, but some renderers send gzip anyway.
func Decodable(lines []string) bool {
	switch strings.ToLower(strings.Join(lines, ",")) {
	case "", "identity", "gzip", "x-gzip":
		return true
	}
	return false
}

// Decode decodes a body whose coding is [Decodable], up to limit bytes. The result has no
// excess capacity, as it is kept for long.
func Decode(coding string, body []byte, limit int64) ([]byte, error) {
	if coding == "" || strings.EqualFold(coding, "identity") {
		return fitted(body), nil
	}
	zr, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("decoding the body: %w", err)
	}
	plain, err := io.ReadAll(io.LimitReader(zr, limit+1))
	if err != nil {
		return nil, fmt.Errorf("decoding the body: %w", err)
	}
	if int64(len(plain)) > limit {
		return nil, ErrTooLarge
	}
	return fitted(plain), nil
}

// Gzip compresses a body; it returns nil if the body is not text, is too short or too long,
// or does not shrink by a tenth.
func Gzip(contentType string, body []byte) []byte {
	if len(body) < minGzip || len(body) > maxGzip || !Compressible(contentType) {
		return nil
	}
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	// Writes to a bytes.Buffer do not fail.
	_, _ = zw.Write(body)
	_ = zw.Close()
	if b.Len() > len(body)*9/10 {
		return nil
	}
	return fitted(b.Bytes())
}

// fitted returns the content of a grown buffer without its excess capacity.
func fitted(b []byte) []byte {
	if cap(b)-len(b) <= len(b)/16 {
		return b
	}
	return bytes.Clone(b)
}

// Compressible reports whether a content type is text or another format that gzip shrinks.
func Compressible(contentType string) bool {
	t, _, _ := strings.Cut(contentType, ";")
	t = strings.ToLower(strings.TrimSpace(t))
	if strings.HasPrefix(t, "text/") || strings.HasSuffix(t, "+json") || strings.HasSuffix(t, "+xml") {
		return true
	}
	switch t {
	case "application/json", "application/javascript", "application/xml", "application/wasm",
		"application/manifest+json", "image/svg+xml", "application/vnd.ms-fontobject", "font/ttf", "font/otf":
		return true
	}
	return false
}

// AcceptsGzip reports whether Accept-Encoding (RFC 9110, section 12.5.3) names gzip, or "*",
// with a weight above zero. It does not allocate.
func AcceptsGzip(lines []string) bool {
	star := false
	for _, line := range lines {
		for len(line) > 0 {
			var member string
			member, line, _ = strings.Cut(line, ",")
			coding, params, _ := strings.Cut(member, ";")
			coding = strings.TrimSpace(coding)
			switch {
			case strings.EqualFold(coding, "gzip") || strings.EqualFold(coding, "x-gzip"):
				return Weight(params) > 0
			case coding == "*":
				star = Weight(params) > 0
			}
		}
	}
	return star
}

// Weight returns the weight (RFC 9110, section 12.4.2) in the parameters of a member: 1 if there
// is none, 0 if it is invalid. It does not allocate.
func Weight(params string) float64 {
	params = strings.TrimSpace(params)
	if len(params) < 2 || (params[0] != 'q' && params[0] != 'Q') || params[1] != '=' {
		return 1
	}
	q, err := strconv.ParseFloat(params[2:], 64)
	if err != nil || !(q >= 0 && q <= 1) { // as NaN is neither
		return 0
	}
	return q
}
