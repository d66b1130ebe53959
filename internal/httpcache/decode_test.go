package httpcache

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// coders encode with each coding that Decode knows; "deflate (bare)" is deflate without the
// zlib format.
var coders = map[string]func(io.Writer) io.WriteCloser{
	"gzip":    func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
	"deflate": func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
	"deflate (bare)": func(w io.Writer) io.WriteCloser {
		fw, _ := flate.NewWriter(w, flate.DefaultCompression)
		return fw
	},
	"br": func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) },
	"zstd": func(w io.Writer) io.WriteCloser {
		zw, _ := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
		return zw
	},
}

// encode encodes a body with codings, one after the other.
func encode(t testing.TB, body []byte, codings ...string) []byte {
	t.Helper()
	for _, coding := range codings {
		var b bytes.Buffer
		zw := coders[coding](&b)
		if _, err := zw.Write(body); err != nil {
			t.Fatal(err)
		}
		if err := zw.Close(); err != nil {
			t.Fatal(err)
		}
		body = b.Bytes()
	}
	return body
}

// TestDecodable: RFC 9110, section 8.4.
func TestDecodable(t *testing.T) {
	for lines, want := range map[string]bool{
		"": true, "identity": true, "gzip": true, "X-GZIP": true, "BR": true, "zstd": true, "deflate": true,
		"gzip, br": true, "gzip|br": true, " gzip ,\tbr": true, "gzip,,br": true, "identity, gzip": true,
		"gzip, gzip, gzip": true, "gzip, gzip, gzip, gzip": false,
		"compress": false, "gzip, compress": false, "aws-chunked": false, "gzip;q=1": false, "dcb": false, "*": false,
	} {
		if got := Decodable(strings.Split(lines, "|")); got != want {
			t.Errorf("Decodable(%q) = %v", lines, got)
		}
	}
	if !Decodable(nil) {
		t.Error("no field is not decodable")
	}
}

func TestDecode(t *testing.T) {
	plain := []byte(strings.Repeat("<p>A page with some text.</p>\n", 500))
	limit := int64(len(plain))
	tests := map[string][]string{ // the field, and how the body was encoded
		"gzip": {"gzip"}, "x-gzip": {"gzip"}, "Br": {"br"}, "zstd": {"zstd"}, "deflate": {"deflate"},
		"deflate ": {"deflate (bare)"}, "gzip, br": {"gzip", "br"}, "br,zstd,deflate": {"br", "zstd", "deflate"},
		"identity": nil, "": nil,
	}
	for field, codings := range tests {
		body := encode(t, plain, codings...)
		got, err := Decode([]string{field}, body, limit)
		if err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%q: %d bytes, %v; want %d", field, len(got), err, len(plain))
		}
		if spare := cap(got) - len(got); spare > len(got)/8 {
			t.Errorf("%q: a body of %d bytes holds %d more", field, len(got), spare)
		}
		if len(codings) == 0 {
			continue
		}
		if got, err := Decode([]string{field}, body, limit-1); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%q beyond the limit: %d bytes, %v", field, len(got), err)
		}
		if got, err := Decode([]string{field}, body[:len(body)-1], limit); err == nil {
			t.Errorf("%q without its last byte: %d bytes, and no error", field, len(got))
		}
		if got, err := Decode([]string{field}, nil, limit); err != nil || len(got) != 0 {
			t.Errorf("%q of an empty body: %d bytes, %v", field, len(got), err)
		}
	}
	if got, err := Decode([]string{"gzip", "br"}, encode(t, plain, "gzip", "br"), limit); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("two lines: %d bytes, %v", len(got), err)
	}
	for _, field := range []string{"compress", "gzip, gzip, gzip, gzip"} {
		if _, err := Decode([]string{field}, plain, limit); err == nil {
			t.Errorf("%q is decoded", field)
		}
	}
}

// A body that expands a thousandfold costs what the limit allows, whichever codings lie on top
// of each other: also when a coding below expands, and the body itself is small.
func TestDecodeBoundsBombs(t *testing.T) {
	const limit = 1 << 20
	zeros := make([]byte, 16<<20)
	empty := bytes.Repeat(encode(t, nil, "gzip"), 16<<20/23) // gzip members without content
	for name, bomb := range map[string]struct {
		field string
		body  []byte
	}{
		"gzip":            {"gzip", encode(t, zeros, "gzip")},
		"br":              {"br", encode(t, zeros, "br")},
		"zstd":            {"zstd", encode(t, zeros, "zstd")},
		"deflate":         {"deflate", encode(t, zeros, "deflate")},
		"gzip in gzip":    {"gzip, gzip", encode(t, zeros, "gzip", "gzip")},
		"nothing, in br":  {"gzip, br", encode(t, empty, "br")},
		"nothing, thrice": {"gzip, zstd, zstd", encode(t, empty, "zstd", "zstd")},
	} {
		if len(bomb.body) > limit {
			t.Fatalf("%s: the bomb has %d bytes", name, len(bomb.body))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := Decode([]string{bomb.field}, bomb.body, limit)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %d bytes, %v; want ErrTooLarge", name, len(got), err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
			t.Errorf("%s: decoding allocated %d MiB, of a limit of 1 MiB", name, n>>20)
		}
	}
}

func FuzzDecode(f *testing.F) {
	plain := []byte(strings.Repeat("text ", 50))
	for _, field := range []string{"gzip", "deflate", "br", "zstd"} {
		f.Add(field, encode(f, plain, field))
	}
	f.Add("gzip, br", encode(f, plain, "gzip", "br"))
	f.Add("deflate", encode(f, plain, "deflate (bare)"))
	f.Add("deflate", []byte{0x78})
	f.Fuzz(func(t *testing.T, field string, body []byte) {
		const limit = 64 << 10
		got, err := Decode([]string{field}, body, limit)
		if !Decodable([]string{field}) && err == nil && len(body) > 0 {
			t.Fatalf("%q is not decodable, and decoded", field)
		}
		if err != nil {
			return
		}
		if _, coded := contentCodings([]string{field}); coded && len(got) > max(limit, len(body)) {
			t.Fatalf("%d bytes, beyond the limit", len(got))
		}
		// What was decoded is decoded again, after encoding.
		for coding := range coders {
			name, _, _ := strings.Cut(coding, " ")
			again, err := Decode([]string{name}, encode(t, got, coding), int64(len(got)))
			if err != nil || !bytes.Equal(again, got) {
				t.Fatalf("%s: %d bytes, %v; want %d", coding, len(again), err, len(got))
			}
		}
	})
}
