package coding

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/facetheory/isr/internal/httpcache"
)

// page returns HTML of about n bytes.
func page(n int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("the page cache renders each site once per expiry for all servers and visitors together by a lease in the table")
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "<li class=%q><a href=\"/%d\">", words[random.IntN(len(words))], random.IntN(1000))
		for range 8 {
			b.WriteString(words[random.IntN(len(words))] + " ")
		}
		b.WriteString("</a></li>\n")
	}
	return []byte(b.String()[:n])
}

// What an encoder makes, one body after another, decodes to the body.
func TestEncode(t *testing.T) {
	var e Encoder
	for _, n := range []int{MinBody, 10 << 10, 100 << 10, smallBody, smallBody + 1, 1 << 20, 2000} {
		body := page(n)
		for c := range httpcache.Identity {
			coded := e.Encode(c, body)
			if coded == nil || len(coded) > n/2 {
				t.Errorf("%d bytes in %s: %d", n, c, len(coded))
			}
			if spare := cap(coded) - len(coded); spare > len(coded)/8+16 {
				t.Errorf("%d bytes in %s hold %d more", n, c, spare)
			}
			got, err := httpcache.Decode([]string{c.String()}, coded, int64(n))
			if err != nil || !bytes.Equal(got, body) {
				t.Errorf("%d bytes in %s decode to %d, %v", n, c, len(got), err)
			}
		}
	}
	random := make([]byte, 5000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(random)
	for c := range httpcache.Identity {
		if coded := e.Encode(c, random); coded != nil {
			t.Errorf("%s of random bytes: %d of %d", c, len(coded), len(random))
		}
	}
}

func TestUseful(t *testing.T) {
	for _, tt := range []struct {
		contentType string
		length      int64
		want        bool
	}{
		{"text/html; charset=utf-8", MinBody, true},
		{"text/html", MinBody - 1, false},
		{"application/json", MaxBody, true},
		{"application/json", MaxBody + 1, false},
		{"image/png", 5000, false},
		{"image/svg+xml", 5000, true},
		{"", 5000, false},
	} {
		if got := Useful(tt.contentType, tt.length); got != tt.want {
			t.Errorf("%q of %d bytes: %v", tt.contentType, tt.length, got)
		}
	}
}

func choose(c httpcache.Coding) func(Has) httpcache.Coding {
	return func(Has) httpcache.Coding { return c }
}

func TestSet(t *testing.T) {
	const digest = "aa"
	s := Set{httpcache.Brotli: []byte("brotli"), httpcache.Gzip: []byte("gzip, and longer")}
	stored := s.Marshal(digest)
	n := int64(len(stored))
	for c := range httpcache.Identity + 1 {
		has, coded, err := Read(iotest.OneByteReader(bytes.NewReader(stored)), n, 100, digest, choose(c))
		var want []byte
		if c < httpcache.Identity {
			want = s[c]
		}
		if err != nil || !bytes.Equal(coded, want) || has != (Has{httpcache.Brotli: true, httpcache.Gzip: true}) {
			t.Errorf("%s: %q, %v, %v", c, coded, has, err)
		}
	}
	var none Set
	empty := none.Marshal(digest)
	if has, coded, err := Read(bytes.NewReader(empty), int64(len(empty)), 100, digest, choose(httpcache.Gzip)); err != nil || coded != nil || has != (Has{}) {
		t.Errorf("an empty set: %q, %v, %v", coded, has, err)
	}

	damaged := func(name string, stored []byte, length, plain int64, digest string) {
		t.Helper()
		if _, coded, err := Read(bytes.NewReader(stored), length, plain, digest, choose(httpcache.Gzip)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %q, %v", name, coded, err)
		}
	}
	damaged("the codings of another body", stored, n, 100, "bb")
	damaged("codings as long as the body", stored, n, 16, digest)
	damaged("nothing", nil, 0, 100, digest)
	for i := range stored {
		damaged(fmt.Sprintf("the first %d bytes", i), stored[:i], int64(i), 100, digest)
		damaged(fmt.Sprintf("the first %d bytes, by another length", i), stored[:i], n, 100, digest)
	}
	for i := range stored {
		other := bytes.Clone(stored)
		other[i] ^= 1
		_, coded, err := Read(bytes.NewReader(other), n, 100, digest, choose(httpcache.Gzip))
		if err == nil && !bytes.Equal(coded, s[httpcache.Gzip]) {
			t.Errorf("with another bit in byte %d: %q", i, coded)
		}
	}
	failing := errors.New("the network failed")
	if _, _, err := Read(iotest.ErrReader(failing), n, 100, digest, choose(httpcache.Gzip)); !errors.Is(err, failing) || errors.Is(err, ErrDamaged) {
		t.Errorf("a failing read: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	s := Set{httpcache.Brotli: []byte("brotli"), httpcache.Zstd: []byte("z"), httpcache.Gzip: []byte("gzip, and longer")}
	f.Add(s.Marshal("aa"), uint8(0), int64(20))
	f.Add(s.Marshal("aa"), uint8(2), int64(20))
	f.Add(new(Set).Marshal("aa"), uint8(1), int64(2))
	f.Add([]byte(magic), uint8(3), int64(20))
	f.Fuzz(func(t *testing.T, stored []byte, wanted uint8, plain int64) {
		c := httpcache.Coding(wanted)
		has, coded, err := Read(bytes.NewReader(stored), int64(len(stored)), plain, "aa", choose(c))
		if err != nil {
			return
		}
		// What is accepted is what Marshal writes, and the coding is bounded by the body.
		if int64(len(coded)) > max(plain, 0) || len(coded) > 0 && !has[c] {
			t.Fatalf("%d bytes of a body of %d; has %v", len(coded), plain, has)
		}
		var all Set
		for c := range httpcache.Identity {
			if _, all[c], err = Read(bytes.NewReader(stored), int64(len(stored)), plain, "aa", choose(c)); err != nil {
				return
			}
		}
		again := all.Marshal("aa")
		if len(again) != len(stored) || !bytes.Equal(again[headLen:], stored[headLen:]) {
			t.Fatalf("%q is read as %q", stored, again)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	for _, n := range []int{10 << 10, 100 << 10, 1 << 20} {
		body := page(n)
		for c := range httpcache.Identity {
			b.Run(fmt.Sprintf("%d/%s", n, c), func(b *testing.B) {
				var e Encoder
				b.SetBytes(int64(n))
				b.ReportAllocs()
				coded := 0
				for range b.N {
					coded = len(e.Encode(c, body))
				}
				b.ReportMetric(float64(coded), "coded-bytes")
			})
		}
	}
}
