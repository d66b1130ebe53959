package simulator

import (
	"fmt"
	"net/http"
	"strings"
)

// minSeqHeader is the header of a request for a page that is at least as new as a receipt.
const minSeqHeader = "ISR-Min-Seq"

// drawReceipt makes some visitors demand the state of a receipt: the receipt of an acknowledged purge,
// sometimes a sequence that the log does not have yet. One such visitor of a page waits at a
// time: else the seed would not decide what happens, and in real time, where purges are frequent,
// nodes would do nothing but read.
func (w *world) drawReceipt(v *visitor, r *http.Request) {
	seen := v.life.pages[v.page]
	if len(w.receipts) == 0 || seen.demanding || w.rng.IntN(6) > 0 || w.pace.ordered() && seen.waiting > 1 && v.life.mayBeLate() {
		return
	}
	newest := w.receipts[max(0, len(w.receipts)-3):]
	v.minSeq = pick(w.rng, newest).seq
	if w.rng.IntN(8) == 0 {
		v.minSeq = w.seq + 1 + int64(w.rng.IntN(2))
	}
	seen.demanding = true
	if v.minSeq <= w.seq {
		v.floor = max(v.floor, v.life.floorAt(v.page, v.minSeq))
	}
	if v.minSeq > v.cursor {
		w.counts["receipt ahead of the node"]++
	}
	v.known = w.seq
	r.Header.Set(minSeqHeader, fmt.Sprint(v.minSeq))
	w.log("%s has the receipt %d", v.name, v.minSeq)
}

// checkReceived: a receipt is refused if and only if the log does not reach it.
func (w *world) checkReceived(v *visitor) {
	v.life.pages[v.page].demanding = false
	switch refused := v.status == http.StatusBadRequest; {
	case refused && v.minSeq <= v.known && !w.damaged:
		w.violate("a receipt is accepted", "%s was refused with the receipt %d, and the log was at %d when it came", v.name, v.minSeq, v.known)
	case refused:
		w.counts["receipt refused as too high"]++
	case v.status == http.StatusOK && v.minSeq > w.seq:
		w.violate("a receipt that is too high is refused", "%s got a page with the receipt %d, and the log is at %d", v.name, v.minSeq, w.seq)
	case strings.HasSuffix(v.header.Get("Cache-Status"), "detail=min-seq"):
		w.counts["no page for a receipt"]++
	}
}

// checkSince: a visitor with a receipt gets nothing that a purge up to the receipt covers, from
// no node.
func (w *world) checkSince(v *visitor, content string) {
	seq, known := v.page.rendered[content]
	if v.minSeq == 0 || !known {
		return
	}
	if g := v.page.find(content); g != nil {
		seq = max(seq, g.purgeSeq) // a rollback makes a generation newer than soft purges
	}
	for _, t := range v.page.told {
		if t.seq > v.minSeq || !t.covers(tagOf(content)) {
			continue
		}
		if w.counts["judged by a receipt"]++; seq < t.seq {
			w.violate("a visitor with a receipt gets nothing that it covers", "%s got %s of sequence %d with the receipt %d, and it was purged at %d", v.name, content, seq, v.minSeq, t.seq)
		}
	}
}
