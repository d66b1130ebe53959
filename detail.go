package isr

// Further reasons, as the detail of Cache-Status.
const (
	detailStale         = "stale"
	detailCutOff        = "cut-off"
	detailNegative      = "negative"
	detailStaleIfError  = "stale-if-error"
	detailStoreError    = "store-error"
	detailMinUses       = "min-uses"
	detailNoRoom        = "no-room"
	detailPinned        = "pinned"
	detailBackOff       = "back-off"
	detailFailed        = "render-failed"
	detailTimeout       = "timeout"
	detailHeld          = "held"
	detailOriginBusy    = "origin-busy"
	detailOriginFailing = "origin-failing"
	detailClosing       = "closing"
	detailUnpublished   = "unpublished"
	detailBadRequest    = "bad-request"
)
