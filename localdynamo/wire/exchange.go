package wire

import (
	"bytes"
	"errors"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"

	"github.com/facetheory/isr/localdynamo/internal/answer"
)

const (
	// maxBody is the maximum size of a request body in bytes, before and after
	// decompression. It is AWS's limit for a batch.
	maxBody = 16 << 20

	// firstRead is the maximum size of the first buffer for a body, in bytes,
	// regardless of its Content-Length. It is not charged to the budget.
	firstRead = 64 << 10

	// maxRecycled is the maximum size of a buffer that is reused, in bytes.
	maxRecycled = 1 << 20

	// minCompress is the minimum size of a compressed response in bytes, as on AWS.
	minCompress = 4 << 10
)

const (
	amzJSON   = "application/x-amz-json-1.0"
	plainText = "text/plain"
)

// exchange holds the buffers of one request and its response. Exchanges are pooled.
type exchange struct {
	in          []byte // the request body
	out         []byte // the response body
	spare       []byte // for compression and decompression
	decoder     decoder
	compressors map[string]compressor // by content coding, created on first use
	gunzip      *gzip.Reader          // nil until first use
	bodies      *budget
	held        int64 // bytes taken from bodies
	meter       answer.Meter
}

// compressor is the common interface of gzip.Writer and zlib.Writer.
type compressor interface {
	io.WriteCloser
	Reset(w io.Writer)
}

func newExchange(bodies *budget, answers *answer.Budget) *exchange {
	return &exchange{bodies: bodies, meter: answers.Meter(), in: make([]byte, 0, 4<<10), out: make([]byte, 0, 4<<10), compressors: make(map[string]compressor, 1)}
}

func (x *exchange) reset() {
	x.bodies.give(x.held)
	x.held = 0
	x.meter.Close()
	x.in, x.out, x.spare = recycle(x.in), recycle(x.out), recycle(x.spare)
	x.decoder.reset(nil)
}

func recycle(buffer []byte) []byte {
	if cap(buffer) > maxRecycled {
		return nil
	}
	return buffer[:0]
}

// errTooLarge is the error for a body larger than maxBody.
func errTooLarge() error {
	return clientFault(codeTooLarge, "The request body exceeds %d bytes, before or after decompression; split the request", maxBody)
}

const (
	bodyTime  = 5 * time.Minute  // timeout for the whole body
	stallTime = 30 * time.Second // timeout for each read
)

// read reads the request body into x.in.
func (x *exchange) read(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength > maxBody {
		return errTooLarge()
	}
	body := &deadlineBody{body: r.Body, connection: http.NewResponseController(w), end: time.Now().Add(bodyTime)}
	var err error
	x.in, err = x.readBounded(x.in, body, int(r.ContentLength))
	if err == nil {
		// From here on net/http reads the connection only to detect a disconnect.
		_ = body.connection.SetReadDeadline(time.Time{})
	}
	return err
}

// deadlineBody sets a read deadline before each read. Without a connection, in
// tests, there is no deadline.
type deadlineBody struct {
	body       io.Reader
	connection *http.ResponseController
	end        time.Time // deadline for the whole body
}

func (b *deadlineBody) Read(p []byte) (int, error) {
	stall := time.Now().Add(stallTime)
	if stall.After(b.end) {
		stall = b.end
	}
	_ = b.connection.SetReadDeadline(stall)
	return b.body.Read(p)
}

// readBounded appends body to dst, at most maxBody bytes. length is the expected length,
// or -1 if unknown; a shorter body is an error.
func (x *exchange) readBounded(dst []byte, body io.Reader, length int) (_ []byte, err error) {
	if length > 0 {
		if dst, err = x.grow(dst, min(length, firstRead)); err != nil {
			return dst, err
		}
	}
	for length < 0 || len(dst) < length {
		if len(dst) == cap(dst) {
			if dst, err = x.grow(dst, max(512, cap(dst))); err != nil {
				return dst, err
			}
		}
		n, err := body.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		switch {
		case len(dst) > maxBody:
			return dst, errTooLarge()
		case err == io.EOF && (length < 0 || len(dst) == length):
			return dst, nil
		case err != nil:
			return dst, malformed("The request body is incomplete: " + err.Error())
		}
	}
	return dst, nil
}

// decompress decodes the Content-Encoding of x.in.
func (x *exchange) decompress(coding string) error {
	switch coding {
	case "", "identity":
		return nil
	case codingGzip, codingDeflate:
	default:
		return malformed("Unsupported Content-Encoding " + strconv.Quote(coding) + "; use gzip, deflate or none")
	}
	compressed, err := x.openCompressed(coding)
	if err != nil {
		return malformed("The body is not valid " + coding + ": " + err.Error())
	}
	plain, err := x.readBounded(x.spare, compressed, -1)
	x.in, x.spare = plain, x.in[:0]
	return err
}

// openCompressed returns a decompressing reader of x.in. The zlib reader is not reused:
// deflate requests are rare.
func (x *exchange) openCompressed(coding string) (_ io.Reader, err error) {
	compressed := bytes.NewReader(x.in)
	switch {
	case coding == codingDeflate:
		return zlib.NewReader(compressed)
	case x.gunzip == nil:
		x.gunzip, err = gzip.NewReader(compressed)
	default:
		err = x.gunzip.Reset(compressed)
	}
	return x.gunzip, err
}

// reply sends x.out. Write errors are ignored: they mean that the client disconnected.
func (x *exchange) reply(w http.ResponseWriter, r *http.Request, status int, contentType string) {
	header := w.Header()
	body := x.out
	if len(body) >= minCompress {
		if coding := acceptedCoding(r.Header); coding != "" {
			if compressed, err := x.compress(coding); err == nil {
				body = compressed
				header["Content-Encoding"] = []string{coding}
			}
		}
	}
	setHeaders(header, body, contentType)
	w.WriteHeader(status)
	x.meter.Settle(cap(x.out) + cap(x.spare))
	if len(body) <= answer.Free {
		_, _ = w.Write(body)
		return
	}
	writeSteadily(w, body)
}

// writeSteadily writes a large body. It ends, and breaks the connection, if the client reads
// nothing for stallTime: the body takes part of the budget of responses.
func writeSteadily(w http.ResponseWriter, body []byte) {
	connection := http.NewResponseController(w)
	for part := range slices.Chunk(body, answer.Free) {
		_ = connection.SetWriteDeadline(time.Now().Add(stallTime)) // in tests there is no connection
		if _, err := w.Write(part); err != nil {
			return
		}
	}
	if connection.Flush() == nil {
		_ = connection.SetWriteDeadline(time.Time{})
	}
}

// requestIDLength is the length of AWS's request ids: 260 bits in base 32.
const requestIDLength = 52

// setHeaders sets the headers directly in the map, with canonical names, and allocates
// one string for all values.
func setHeaders(header http.Header, body []byte, contentType string) {
	text := make([]byte, 0, requestIDLength+20)
	text = appendRequestID(text)
	text = strconv.AppendUint(text, uint64(crc32.ChecksumIEEE(body)), 10)
	sum := len(text)
	text = strconv.AppendInt(text, int64(len(body)), 10)
	all := string(text)
	values := [...]string{all[:requestIDLength], all[requestIDLength:sum], all[sum:], contentType, "Server"}
	header["X-Amzn-Requestid"] = values[0:1:1]
	header["X-Amz-Crc32"] = values[1:2:2]
	header["Content-Length"] = values[2:3:3]
	header["Content-Type"] = values[3:4:4]
	header["Server"] = values[4:5:5] // AWS's value is "Server"
}

func appendRequestID(dst []byte) []byte {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"
	var bits uint64
	for i := range requestIDLength {
		if i%12 == 0 { // 60 of 64 bits
			bits = rand.Uint64()
		}
		dst = append(dst, digits[bits&31])
		bits >>= 5
	}
	return dst
}

// Content codings of requests and responses. HTTP's deflate is the zlib format.
const (
	codingGzip    = "gzip"
	codingDeflate = "deflate"
)

// acceptedCoding returns the coding that the client prefers, or "" if it accepts neither.
func acceptedCoding(header http.Header) string {
	best, most := "", 0.0
	for _, line := range header["Accept-Encoding"] {
		for offer := range strings.SplitSeq(line, ",") {
			coding, parameters, _ := strings.Cut(offer, ";")
			coding = strings.ToLower(strings.TrimSpace(coding))
			if coding != codingGzip && coding != codingDeflate {
				continue
			}
			if weight := quality(parameters); weight > most || weight == most && weight > 0 && coding == codingGzip {
				best, most = coding, weight
			}
		}
	}
	return best
}

// quality returns the q-value of an Accept-Encoding element; the default is 1.
func quality(parameters string) float64 {
	text, given := strings.CutPrefix(strings.ToLower(strings.ReplaceAll(parameters, " ", "")), "q=")
	if !given {
		return 1
	}
	weight, err := strconv.ParseFloat(text, 64)
	if err != nil || weight < 0 || weight > 1 {
		return 0
	}
	return weight
}

// compress returns x.out compressed. The result is valid until x is reset.
func (x *exchange) compress(coding string) ([]byte, error) {
	compressed := bytes.NewBuffer(x.spare[:0])
	w := x.compressors[coding]
	switch {
	case w != nil:
		w.Reset(compressed)
	case coding == codingDeflate:
		w = zlib.NewWriter(compressed)
	default:
		w = gzip.NewWriter(compressed)
	}
	x.compressors[coding] = w
	_, err := w.Write(x.out)
	err = errors.Join(err, w.Close())
	x.spare = compressed.Bytes()
	return x.spare, err
}
