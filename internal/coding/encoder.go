package coding

import (
	"bytes"
	"fmt"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/facetheory/isr/internal/httpcache"
)

// Bodies outside these bounds, in bytes, have no codings: shorter ones save nothing, and longer
// ones take the processor for more than a quarter of a second.
const (
	MinBody = 1 << 10
	MaxBody = 4 << 20
)

// Levels, as measured on HTML: brotli's level 5 is 3 percent smaller than the level that large
// bodies get, and takes up to four times as long. Its window fits small bodies, as its memory does.
const (
	smallBody    = 256 << 10
	smallQuality = 5
	smallWindow  = 18 // base 2 logarithm of smallBody
	largeQuality = 4
	gzipLevel    = 6
	zstdLevel    = zstd.SpeedBetterCompression
)

// Useful reports whether a body may have codings, by its content type and its length.
func Useful(contentType string, length int64) bool {
	return length >= MinBody && length <= MaxBody && httpcache.Compressible(contentType)
}

// An Encoder encodes bodies. It keeps its tables, some megabytes, from one to the next. It is
// not safe for concurrent use.
type Encoder struct {
	small, large, gzip resetter // nil until they are used
	zstd               *zstd.Encoder
	buffer             bytes.Buffer
}

type resetter interface {
	io.WriteCloser
	Reset(w io.Writer)
}

// Encode returns a body in a coding; nil if it does not shrink by a tenth. The result has no
// excess capacity.
func (e *Encoder) Encode(c httpcache.Coding, body []byte) []byte {
	var coded []byte
	if c == httpcache.Zstd {
		if e.zstd == nil {
			e.zstd = must(zstd.NewWriter(nil, zstd.WithEncoderLevel(zstdLevel), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true)))
		}
		coded = e.zstd.EncodeAll(body, e.buffer.AvailableBuffer())
	} else {
		e.buffer.Reset()
		w := e.writer(c, len(body))
		w.Reset(&e.buffer)
		// Writes to a bytes.Buffer do not fail.
		_, _ = w.Write(body)
		_ = w.Close()
		coded = e.buffer.Bytes()
	}
	if len(coded) > len(body)*9/10 {
		return nil
	}
	return bytes.Clone(coded)
}

func (e *Encoder) writer(c httpcache.Coding, length int) resetter {
	switch {
	case c == httpcache.Gzip:
		if e.gzip == nil {
			e.gzip = must(gzip.NewWriterLevel(nil, gzipLevel))
		}
		return e.gzip
	case length <= smallBody:
		if e.small == nil {
			e.small = brotli.NewWriterOptions(nil, brotli.WriterOptions{Quality: smallQuality, LGWin: smallWindow})
		}
		return e.small
	}
	if e.large == nil {
		e.large = brotli.NewWriterV2(nil, largeQuality)
	}
	return e.large
}

// must returns v; the options of an encoder are constants.
func must[T any](v T, err error) T {
	if err != nil {
		panic(fmt.Sprintf("coding: %v", err))
	}
	return v
}
