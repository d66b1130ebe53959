package httpcache

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

const (
	// maxStacked bounds the codings that one body may have on top of each other.
	maxStacked = 3
	// maxZstdWindow is the largest window of zstd as a content coding, in bytes (RFC 9659).
	maxZstdWindow = 8 << 20
)

// ErrTooLarge: a body exceeded its limit while it was read or decoded.
var ErrTooLarge = errors.New("the body is too large")

// Decodable reports whether [Decode] can decode a Content-Encoding (RFC 9110, section 8.4):
// at most three of gzip, deflate, br and zstd. Pages are requested and stored without a
// coding, but some renderers send one anyway.
func Decodable(lines []string) bool {
	codings, ok := contentCodings(lines)
	return ok && !slices.ContainsFunc(codings, func(coding string) bool { return !isDecoder(coding) })
}

func isDecoder(coding string) bool {
	switch coding {
	case "gzip", "deflate", "br", "zstd":
		return true
	}
	return false
}

// contentCodings returns the codings of a body, in the order in which they were applied. ok
// is false if there are too many.
func contentCodings(lines []string) (codings []string, ok bool) {
	for _, line := range lines {
		for member := range strings.SplitSeq(line, ",") {
			switch coding := strings.ToLower(strings.Trim(member, " \t")); coding {
			case "", "identity":
			case "x-gzip": // RFC 9110, section 8.4.1.3
				codings = append(codings, "gzip")
			default:
				codings = append(codings, coding)
			}
			if len(codings) > maxStacked {
				return nil, false
			}
		}
	}
	return codings, true
}

// Decode decodes a body with a [Decodable] Content-Encoding, up to limit bytes of the body and
// of each coding below it: [ErrTooLarge] beyond, so that neither memory nor time depends on
// what a body expands to. An empty body has no coding. The result has no excess capacity, as
// it is kept for long.
func Decode(lines []string, body []byte, limit int64) ([]byte, error) {
	codings, ok := contentCodings(lines)
	if !ok {
		return nil, fmt.Errorf("decoding the body: more than %d codings", maxStacked)
	}
	if len(codings) == 0 || len(body) == 0 {
		return fitted(body), nil
	}
	var rd io.Reader = bytes.NewReader(body)
	var layers []io.Reader // the outermost coding first
	for _, coding := range slices.Backward(codings) {
		decoder, err := newDecoder(coding, rd)
		if err != nil {
			return nil, fmt.Errorf("decoding the body from %s: %w", coding, err)
		}
		defer func() { _ = decoder.Close() }() // what matters has been read
		rd = &boundedReader{decoder, limit}
		layers = append(layers, rd)
	}
	plain, err := io.ReadAll(rd)
	for i := 0; err == nil && i < len(layers); i++ {
		// A coding may know the end of its content before the end of the coding around it.
		_, err = io.Copy(io.Discard, layers[i])
	}
	if err != nil {
		return nil, fmt.Errorf("decoding the body from %s: %w", strings.Join(codings, ", "), err)
	}
	return fitted(plain), nil
}

func newDecoder(coding string, rd io.Reader) (io.ReadCloser, error) {
	switch coding {
	case "gzip":
		return gzip.NewReader(rd)
	case "deflate":
		return newInflater(rd)
	case "br":
		return io.NopCloser(brotli.NewReader(rd)), nil
	case "zstd":
		zr, err := zstd.NewReader(rd, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, err
		}
		return zr.IOReadCloser(), nil
	}
	return nil, errors.New("the coding is unknown")
}

// newInflater decodes deflate: the zlib format (RFC 9110, section 8.4.1.2), or the bare one
// that some servers send, and that browsers accept.
func newInflater(rd io.Reader) (io.ReadCloser, error) {
	var head [2]byte
	n, err := io.ReadFull(rd, head[:])
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	whole := io.MultiReader(bytes.NewReader(head[:n]), rd)
	const deflated = 8 // the method of RFC 1950
	if n == len(head) && head[0]&0x0f == deflated && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(whole)
	}
	return flate.NewReader(whole), nil
}

// A boundedReader fails with ErrTooLarge instead of reading more than left bytes.
type boundedReader struct {
	rd   io.Reader
	left int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.rd.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, ErrTooLarge
	}
	return n, err
}

// fitted returns the content of a grown buffer without its excess capacity.
func fitted(b []byte) []byte {
	if cap(b)-len(b) <= len(b)/16 {
		return b
	}
	return bytes.Clone(b)
}
