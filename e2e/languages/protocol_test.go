package languages

import (
	"encoding/json"

	"github.com/facetheory/isr/internal/vocabulary"
)

// A command is a line sent to a worker. Only the members that the command needs are set; key is
// the text of a cache key, and times are epoch seconds.
type command struct {
	ID int    `json:"id"`
	Do string `json:"do"`

	Table string `json:"table,omitempty"` // open
	Owner string `json:"owner,omitempty"` // open

	Key     string `json:"key,omitempty"`
	LeaseMS int64  `json:"lease_ms,omitempty"` // acquire, keep, race
	Claim   *claim `json:"claim,omitempty"`    // acquire
	PauseMS int64  `json:"pause_ms,omitempty"` // back_off

	Entry       *vocabulary.Entry `json:"entry,omitempty"`   // publish, commit
	History     bool              `json:"history,omitempty"` // publish
	To          string            `json:"to,omitempty"`      // rollback: a generation id
	PinnedUntil int64             `json:"pinned_until,omitempty"`
	Failure     string            `json:"failure,omitempty"` // end_request
	Request     string            `json:"request,omitempty"` // request: its key
	After       int64             `json:"after,omitempty"`   // changes: a sequence
	Targets     []target          `json:"targets,omitempty"` // purge
	Hard        bool              `json:"hard,omitempty"`    // purge
	Tags        []string          `json:"tags,omitempty"`    // covering, next_set, revalidate

	S3     string `json:"s3,omitempty"`     // next_open: the address of the S3 server
	Bucket string `json:"bucket,omitempty"` // next_open

	Race *race `json:"race,omitempty"`
}

// A claim is an idempotency key and the inputs of its request.
type claim struct {
	Key    string          `json:"key"`
	Inputs json.RawMessage `json:"inputs"`
}

// A race describes what contenders do until the page has reached a version.
type race struct {
	UntilVersion int64 `json:"until_version"`
	// Counted makes the holder increment the counter in the page's partition.
	Counted bool `json:"counted"`
	// Breaks is the percentage of refused acquisitions after which the loser breaks the lease.
	Breaks int64 `json:"breaks"`
	// Deadline ends the race at any version.
	Deadline int64 `json:"deadline"`
}

// A reply is the answer to a command.
type reply struct {
	ID int             `json:"id"`
	OK json.RawMessage `json:"ok"`
	refusal
}

// A refusal is an error: the name that it has in every language, and its details.
type refusal struct {
	Error   string `json:"error"`
	Message string `json:"message"`

	// LeaseHeld
	Owner     string `json:"owner"`
	ExpiresAt int64  `json:"expires_at"`
	Failures  int    `json:"failures"`
	// RequestInProgress
	Until int64 `json:"until"`
	// RequestCompleted
	BodyKey      string `json:"s3_key"`
	GenerationID string `json:"generation_id"`
	// MalformedRow
	malformed
}

// A malformed names a malformed row and its attribute.
type malformed struct {
	PK        string `json:"pk"`
	SK        string `json:"sk"`
	Attribute string `json:"attribute"`
}

// A lease is the answer to acquire.
type lease struct {
	ExpiresAt int64 `json:"expires_at"`
	Failures  int   `json:"failures"`
	PurgeSeq  int64 `json:"purge_seq"`
}

// A page is the answer to read.
type page struct {
	Entry     *vocabulary.Entry `json:"entry"`
	State     string            `json:"state"` // of the entry, at the time of the read
	Cover     cover             `json:"cover"`
	Lock      *lock             `json:"lock"`
	Malformed *malformed        `json:"malformed"`
}

// A cover is a purge state: of a page in the answer to read, and the answer to covering.
type cover struct {
	Seq          int64 `json:"seq"`
	HardSeq      int64 `json:"hard_seq"`
	At           int64 `json:"at"`
	MarkLifetime int64 `json:"mark_lifetime,omitempty"` // covering
}

type lock struct {
	Owner     string `json:"owner"`
	ExpiresAt int64  `json:"expires_at"`
	Failures  int    `json:"failures"`
}

// A request is the answer to request; null if there is no record.
type request struct {
	Hash         string `json:"request_hash"`
	Status       string `json:"status"`
	BodyKey      string `json:"result_s3_key"`
	GenerationID string `json:"generation_id"`
	Until        int64  `json:"in_progress_until"`
	Failure      string `json:"error"`
}

// A change is an element of the answer to changes.
type change struct {
	Seq    int64    `json:"seq"`
	Reload []string `json:"reload"` // keys
	Marks  []mark   `json:"marks"`
}

// A target is a target of a purge.
type target struct {
	Kind   string `json:"kind"`
	Tenant string `json:"tenant,omitempty"`
	Value  string `json:"value,omitempty"`
}

// A mark is an element of the answer to marks, and of a change.
type mark struct {
	Target  target `json:"target"`
	Seq     int64  `json:"seq"`
	HardSeq int64  `json:"hard_seq"`
	At      int64  `json:"at"`
}

// A run is the answer to race.
type run struct {
	Published []publication  `json:"published"`
	Errors    map[string]int `json:"told"` // errors by name
}

type publication struct {
	Version      int64  `json:"v"`
	GenerationID string `json:"generation_id"`
}
