package bodies

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

const (
	// pieceLength is the length of the pieces in which a body is sent from the store, in bytes. Each
	// slow visitor holds one. Beyond maxLongPieces they are shorter: one client may have a hundred thousand
	// streams of HTTP/2.
	pieceLength      = 64 << 10
	shortPieceLength = 8 << 10
	maxLongPieces    = 128
)

var (
	longPieces  = sync.Pool{New: func() any { return new(make([]byte, pieceLength)) }}
	shortPieces = sync.Pool{New: func() any { return new(make([]byte, shortPieceLength)) }}
)

// Pieces are the buffers by which visitors get a body, of which a bounded number is long. Their methods are safe
// for concurrent use.
type Pieces struct{ long atomic.Int64 }

// Get returns a buffer. The caller must put it back.
func (p *Pieces) Get() *[]byte {
	if p.long.Add(1) <= maxLongPieces {
		return longPieces.Get().(*[]byte)
	}
	p.long.Add(-1)
	return shortPieces.Get().(*[]byte)
}

// Put returns a buffer of [Pieces.Get].
func (p *Pieces) Put(b *[]byte) {
	if len(*b) == shortPieceLength {
		shortPieces.Put(b)
		return
	}
	longPieces.Put(b)
	p.long.Add(-1)
}

// Writer returns a writer to which [http.ServeContent] copies by one of these buffers: net/http would allocate
// another one for each response.
func (p *Pieces) Writer(w http.ResponseWriter) http.ResponseWriter { return pieceWriter{w, p} }

type pieceWriter struct {
	http.ResponseWriter
	pieces *Pieces
}

// ReadFrom implements [io.ReaderFrom].
func (w pieceWriter) ReadFrom(r io.Reader) (int64, error) {
	buffer := w.pieces.Get()
	defer w.pieces.Put(buffer)
	return io.CopyBuffer(struct{ io.Writer }{w.ResponseWriter}, struct{ io.Reader }{r}, *buffer)
}

func (w pieceWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
