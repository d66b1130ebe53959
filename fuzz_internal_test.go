package isr

import (
	"strconv"
	"strings"
	"testing"
)

func FuzzMinSeq(f *testing.F) {
	for _, s := range []string{"17", "-1", "+1", "007", "9223372036854775808", "1_0", "", " 1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		seq, err := parseMinSeq([]string{s})
		if err == nil && (seq < 0 || strconv.FormatInt(seq, 10) != strings.TrimLeft(s, "0") && seq != 0 || strings.Trim(s, "0123456789") != "") {
			t.Fatalf("%q is %d", s, seq)
		}
	})
}
