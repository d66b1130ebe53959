package page

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/store"
)

// The text of an entry is its compact form in memory, a fifth of the size of a [store.Entry]. It
// is never stored or sent:
//
//	digest | times | numbers | texts, each after its length | tags | header fields

// Pack returns the text of an entry; ok is false for one that this package did not write,
// or whose page was withdrawn.
func Pack(e *store.Entry) (text string, ok bool) {
	digest, err := hex.DecodeString(e.SHA256)
	if err != nil || len(digest) != sha256.Size || hex.EncodeToString(digest) != e.SHA256 || e.Foreign || e.Withdrawn {
		return "", false
	}
	prefix, found := strings.CutSuffix(e.BodyKey, e.GenerationID)
	b := append(make([]byte, 0, 512), e.SHA256...)
	for _, t := range []time.Time{e.GeneratedAt, e.Expires, e.PinnedUntil, e.AssertedAt} {
		b = binary.AppendVarint(b, t.Unix())
		b = binary.AppendUvarint(b, uint64(t.Nanosecond())) //nolint:gosec // it is positive
	}
	for _, n := range []int64{int64(e.Revalidate), int64(e.Stale), int64(e.RenderTime), int64(e.InitialAge), e.Version, int64(e.Status), e.Length, e.PurgeSeq, e.Build} {
		b = binary.AppendVarint(b, n)
	}
	own := byte(0)
	if found {
		own = 1
	}
	b = append(b, own)
	for _, t := range []string{e.GenerationID, prefix, e.ETag, e.Key, e.Route} {
		b = appendText(b, t)
	}
	peer, err := e.Peer.MarshalBinary()
	if err != nil {
		return "", false
	}
	b = appendText(b, string(peer))
	b = appendTexts(b, e.Tags)
	b = binary.AppendUvarint(b, uint64(len(e.Header)))
	for _, name := range slices.Sorted(maps.Keys(e.Header)) {
		b = appendTexts(appendText(b, name), e.Header[name])
	}
	return string(b), true
}

func appendText(b []byte, t string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(t))), t...)
}

func appendTexts(b []byte, texts []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(texts)))
	for _, t := range texts {
		b = appendText(b, t)
	}
	return b
}

// Unpack reverses Pack. The texts of the entry are parts of text.
func Unpack(text string) store.Entry { return new(entryMemory).parse(text) }

// An entryMemory is memory of an entry, its header and its lists, that is used for another one next.
type entryMemory struct {
	header http.Header
	texts  []string
}

// parse is Unpack. The entry is valid until the next one is parsed.
func (m *entryMemory) parse(text string) store.Entry {
	r := textReader(text)
	var e store.Entry
	e.SHA256 = r.take(2 * sha256.Size)
	for _, t := range []*time.Time{&e.GeneratedAt, &e.Expires, &e.PinnedUntil, &e.AssertedAt} {
		seconds := r.varint()
		*t = time.Unix(seconds, int64(r.uvarint())).UTC() //nolint:gosec // less than 1e9
	}
	for _, d := range []*time.Duration{&e.Revalidate, &e.Stale, &e.RenderTime, &e.InitialAge} {
		*d = time.Duration(r.varint())
	}
	e.Version, e.Status = r.varint(), int(r.varint())
	e.Length, e.PurgeSeq, e.Build = r.varint(), r.varint(), r.varint()
	own := r.take(1) == "\x01"
	e.GenerationID = r.text()
	if e.BodyKey = r.text(); own {
		e.BodyKey += e.GenerationID
	}
	e.ETag, e.Key, e.Route = r.text(), r.text(), r.text()
	_ = e.Peer.UnmarshalBinary([]byte(r.text())) // written by MarshalBinary
	all := m.texts[:0]
	if all == nil {
		all = make([]string, 0, 16) // more than most entries have
	}
	e.Tags, all = r.texts(all)
	if n := r.uvarint(); n > 0 {
		if m.header == nil {
			m.header = make(http.Header, n)
		}
		clear(m.header)
		e.Header = m.header
		for range n {
			name := r.text()
			e.Header[name], all = r.texts(all)
		}
	}
	m.texts = all
	return e
}

// A textReader reads what the append functions have written; it is this process's own, so that
// it cannot be malformed.
type textReader string

func (r *textReader) take(n int) string {
	t := string((*r)[:n])
	*r = (*r)[n:]
	return t
}

func (r *textReader) uvarint() (n uint64) {
	for shift := 0; ; shift += 7 {
		c := r.take(1)[0]
		n |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return n
		}
	}
}

// varint reverses the zigzag encoding of [binary.AppendVarint].
func (r *textReader) varint() int64 {
	n := r.uvarint()
	return int64(n>>1) ^ -int64(n&1) //nolint:gosec // the encoding
}

func (r *textReader) text() string { return r.take(int(r.uvarint())) } //nolint:gosec // a length

// texts returns texts that it appends to all, and all.
func (r *textReader) texts(all []string) (texts, after []string) {
	n := r.uvarint()
	if n == 0 {
		return nil, all
	}
	begin := len(all)
	for range n {
		all = append(all, r.text())
	}
	return all[begin:len(all):len(all)], all
}

// A Memory is memory of a page that is forgotten with the response that it is made for, and used for
// another page next.
type Memory struct {
	made  Page
	entry entryMemory
}

// Unpack returns the page of the text of an entry, without its body, until the next one is made. It shares the
// mark dropped.
func (m *Memory) Unpack(k store.Key, text string, cover *store.PurgeState, read Interval, dropped *atomic.Bool) *Page {
	p, fields := &m.made, m.made.fields[:0]
	*p = Page{Key: k, Entry: m.entry.parse(text), Purges: *cover, Read: read, Dropped: dropped, fields: fields}
	return p
}
