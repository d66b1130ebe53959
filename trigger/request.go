package trigger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/facetheory/isr/internal/purgetarget"
	"github.com/facetheory/isr/store"
)

// A purgeRequest is the body of POST /-/purge, as far as triggers accept it.
type purgeRequest struct {
	Targets []purgetarget.PurgeTarget `json:"targets"`
	Mode    string                    `json:"mode"`
	Tenant  string                    `json:"tenant"`
}

// parseRequest reads a purge request. Unknown fields are errors: they may restrict what is
// purged.
func parseRequest(text []byte) (targets []store.PurgeTarget, hard bool, err error) {
	var r purgeRequest
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&r); err != nil {
		return nil, false, fmt.Errorf("%w: purge request: %w", store.ErrInvalidInput, err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, false, fmt.Errorf("%w: purge request: expected one JSON object, found more after it", store.ErrInvalidInput)
	}
	switch r.Mode {
	case "", "soft":
	case "hard":
		hard = true
	default:
		return nil, false, fmt.Errorf("%w: the mode of a trigger is soft or hard (got %q)", store.ErrInvalidInput, r.Mode)
	}
	for i, requested := range r.Targets {
		t, err := requested.Parse(r.Tenant)
		if err != nil {
			return nil, false, fmt.Errorf("targets[%d]: %w", i, err)
		}
		targets = append(targets, t)
	}
	return targets, hard, nil
}
