package downstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/facetheory/isr/store"
)

// isrTargets is how many targets one request has at most: a page may count twice, with
// its variants.
const isrTargets = store.MaxPurgeTargets / 2

// ISR is another isr server, such as one in front of this fleet in another region. It
// must not have this fleet as its own downstream cache: purges would go round in circles.
type ISR struct {
	api *caller
}

// NewISR returns the server with an admin API at endpoint, which has no slash at its end.
func NewISR(endpoint string, token Token) *ISR {
	return &ISR{api: newCaller(endpoint, token, bearer)}
}

// Limits implements [Destination].
func (s *ISR) Limits() Limits {
	return Limits{Targets: store.MaxPurgeTargets, Debounce: 50 * time.Millisecond}
}

// isrTarget is a target of POST /-/purge, with one of the fields.
type isrTarget struct {
	URL    string `json:"url,omitempty"`
	Tag    string `json:"tag,omitempty"`
	Prefix string `json:"prefix,omitempty"`
	Tenant string `json:"tenant,omitempty"`
	All    bool   `json:"all,omitempty"`
}

// isrPurge is the body of POST /-/purge.
type isrPurge struct {
	Targets []isrTarget `json:"targets"`
	Mode    string      `json:"mode"`
	Tenant  string      `json:"tenant,omitempty"` // of URLs, tags and prefixes
}

// Deliver implements [Destination]. Targets of different tenants are different requests.
func (s *ISR) Deliver(ctx context.Context, b Batch) error {
	mode := "soft"
	if b.Hard {
		mode = "hard"
	}
	byTenant := make(map[string][]isrTarget)
	for _, t := range b.Targets {
		tenant, target := isrTargetOf(t)
		if !slices.Contains(byTenant[tenant], target) {
			byTenant[tenant] = append(byTenant[tenant], target)
		}
	}
	for _, tenant := range slices.Sorted(maps.Keys(byTenant)) {
		for targets := range slices.Chunk(byTenant[tenant], isrTargets) {
			answer, err := s.api.post(ctx, "/-/purge", isrPurge{Targets: targets, Mode: mode, Tenant: tenant})
			if err != nil {
				return err
			}
			if err := isrResult(answer); err != nil {
				return err
			}
		}
	}
	return nil
}

// isrTargetOf returns a target in the form of the API. A kind of a newer version purges
// everything.
func isrTargetOf(t store.PurgeTarget) (tenant string, target isrTarget) {
	switch t.Kind {
	case store.PurgeKey:
		return t.Tenant, isrTarget{URL: t.Value}
	case store.PurgeTag:
		return t.Tenant, isrTarget{Tag: t.Value}
	case store.PurgePrefix:
		return t.Tenant, isrTarget{Prefix: t.Value}
	case store.PurgeTenant:
		return "", isrTarget{Tenant: t.Tenant}
	}
	return "", isrTarget{All: true}
}

// isrResult checks a response of status 200: JSON values, of which the last is an error if
// the purge failed on the way.
func isrResult(a answer) error {
	values := json.NewDecoder(bytes.NewReader(a.body))
	for found := false; ; found = true {
		var value struct {
			Error *struct {
				Message string `json:"message"`
			} `json:"error"`
		}
		switch err := values.Decode(&value); {
		case errors.Is(err, io.EOF) && found:
			return nil
		case err != nil:
			return &RetryError{After: configurationRetry, Err: fmt.Errorf("the response does not come from an admin API of isr%s", shown(a.body))}
		case value.Error != nil:
			return &RetryError{Err: fmt.Errorf("the purge failed: %.200s", value.Error.Message)}
		}
	}
}
