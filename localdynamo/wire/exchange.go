package wire

import (
	"bytes"
	"errors"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
)

const (
	// maxBody is the largest request in bytes, also after it was unpacked:
	// AWS's own limit of a batch.
	maxBody = 16 << 20

	// firstRead is how much is allotted to a request before any of it has
	// arrived, whatever length it claims.
	firstRead = 64 << 10

	// keptBuffer is the largest buffer that an exchange keeps for the next.
	keptBuffer = 1 << 20

	// packFrom is the smallest answer that is packed, as on AWS.
	packFrom = 4 << 10
)

const (
	amzJSON   = "application/x-amz-json-1.0"
	plainText = "text/plain"
)

// exchange is the memory of one request and its answer, used again and again.
type exchange struct {
	in      []byte // the request's body
	out     []byte // the answer's
	spare   []byte // for packing and unpacking
	decoder decoder
	packers map[string]packer // by their coding, once used
	gunzip  *gzip.Reader      // nil until first used
	bodies  *budget
	held    int64 // of bodies
}

// packer is what the writers of both codings have in common.
type packer interface {
	io.WriteCloser
	Reset(w io.Writer)
}

func newExchange(bodies *budget) *exchange {
	return &exchange{bodies: bodies, in: make([]byte, 0, 4<<10), out: make([]byte, 0, 4<<10), packers: make(map[string]packer, 1)}
}

func (x *exchange) reset() {
	x.bodies.give(x.held)
	x.held = 0
	x.in, x.out, x.spare = kept(x.in), kept(x.out), kept(x.spare)
	x.decoder.reset(nil)
}

func kept(buffer []byte) []byte {
	if cap(buffer) > keptBuffer {
		return nil
	}
	return buffer[:0]
}

// errTooLarge is the answer to a body of more than maxBody.
func errTooLarge() error {
	return clientFault(codeTooLarge, "The request has more than %d bytes, packed or unpacked; split it into smaller ones", maxBody)
}

// A body may take bodyTime in all, and stallTime without a byte.
const (
	bodyTime  = 5 * time.Minute
	stallTime = 30 * time.Second
)

// read takes in the body.
func (x *exchange) read(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength > maxBody {
		return errTooLarge()
	}
	body := &movingBody{body: r.Body, connection: http.NewResponseController(w), end: time.Now().Add(bodyTime)}
	var err error
	x.in, err = x.readBounded(x.in, body, int(r.ContentLength))
	if err == nil {
		// The connection is only watched from now on, for its end.
		_ = body.connection.SetReadDeadline(time.Time{})
	}
	return err
}

// A movingBody ends when nothing comes any more. Where there is no connection, as in
// tests, nothing is awaited.
type movingBody struct {
	body       io.Reader
	connection *http.ResponseController
	end        time.Time
}

func (b *movingBody) Read(p []byte) (int, error) {
	stall := time.Now().Add(stallTime)
	if stall.After(b.end) {
		stall = b.end
	}
	_ = b.connection.SetReadDeadline(stall)
	return b.body.Read(p)
}

// readBounded appends all of body to dst; length is how much there will be,
// or -1. What does not come in full cannot be decoded either.
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
			return dst, malformed("The request's body ended early: " + err.Error())
		}
	}
	return dst, nil
}

// unpack undoes the Content-Encoding of x.in.
func (x *exchange) unpack(coding string) error {
	switch coding {
	case "", "identity":
		return nil
	case codingGzip, codingDeflate:
	default:
		return malformed("Unknown Content-Encoding " + strconv.Quote(coding) + "; send gzip or deflate, or none")
	}
	packed, err := x.openPacked(coding)
	if err != nil {
		return malformed("The body is not what " + coding + " makes: " + err.Error())
	}
	plain, err := x.readBounded(x.spare, packed, -1)
	x.in, x.spare = plain, x.in[:0]
	return err
}

// openPacked reads x.in. Requests in deflate are rare, and keep no reader.
func (x *exchange) openPacked(coding string) (_ io.Reader, err error) {
	packed := bytes.NewReader(x.in)
	switch {
	case coding == codingDeflate:
		return zlib.NewReader(packed)
	case x.gunzip == nil:
		x.gunzip, err = gzip.NewReader(packed)
	default:
		err = x.gunzip.Reset(packed)
	}
	return x.gunzip, err
}

// reply sends x.out. An error of writing is the client's going away, of which
// nobody is left to be told.
func (x *exchange) reply(w http.ResponseWriter, r *http.Request, status int, contentType string) {
	header := w.Header()
	body := x.out
	if len(body) >= packFrom {
		if coding := acceptedCoding(r.Header); coding != "" {
			if packed, err := x.pack(coding); err == nil {
				body = packed
				header["Content-Encoding"] = []string{coding}
			}
		}
	}
	setHeaders(header, body, contentType)
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// requestIDLength is that of AWS's ids: 260 bits in base 32.
const requestIDLength = 52

// setHeaders writes into the map itself, with names in net/http's own
// spelling, and makes one string of all values.
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
	header["Server"] = values[4:5:5] // AWS's calls itself so
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

// The codings of answers and requests. Deflate is that of HTTP: zlib's format.
const (
	codingGzip    = "gzip"
	codingDeflate = "deflate"
)

// acceptedCoding is the one that the client wants most, "" if it wants neither.
func acceptedCoding(header http.Header) string {
	best, most := "", 0.0
	for _, line := range header["Accept-Encoding"] {
		for offer := range strings.SplitSeq(line, ",") {
			coding, parameters, _ := strings.Cut(offer, ";")
			coding = strings.ToLower(strings.TrimSpace(coding))
			if coding != codingGzip && coding != codingDeflate {
				continue
			}
			if weight := weightIn(parameters); weight > most || weight == most && weight > 0 && coding == codingGzip {
				best, most = coding, weight
			}
		}
	}
	return best
}

// weightIn is the weight of an offer, 1 unless it says another one.
func weightIn(parameters string) float64 {
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

// pack returns x.out in a coding.
func (x *exchange) pack(coding string) ([]byte, error) {
	packed := bytes.NewBuffer(x.spare[:0])
	w := x.packers[coding]
	switch {
	case w != nil:
		w.Reset(packed)
	case coding == codingDeflate:
		w = zlib.NewWriter(packed)
	default:
		w = gzip.NewWriter(packed)
	}
	x.packers[coding] = w
	_, err := w.Write(x.out)
	err = errors.Join(err, w.Close())
	x.spare = packed.Bytes()
	return x.spare, err
}
