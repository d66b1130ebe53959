package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/dynamostore"
)

// A report is what is stored of one page, as the commands show it.
type report struct {
	Key       string `json:"key,omitempty"`
	Partition string `json:"pk"`
	State     string `json:"state"`

	Status      int         `json:"status,omitempty"`
	GeneratedAt time.Time   `json:"generated_at,omitzero"`
	AgeSeconds  int64       `json:"age_seconds"`
	FreshFor    int64       `json:"fresh_for_seconds"`
	StaleFor    int64       `json:"stale_for_seconds"`
	KeptUntil   time.Time   `json:"kept_until,omitzero"`
	Generation  string      `json:"generation_id,omitempty"`
	ETag        string      `json:"etag,omitempty"`
	Body        string      `json:"body,omitempty"`
	BodyBytes   int64       `json:"body_bytes"`
	BodyProblem string      `json:"body_problem,omitempty"`
	Foreign     bool        `json:"written_by_another_service,omitempty"`
	Route       string      `json:"route,omitempty"`
	Tags        []string    `json:"tags,omitempty"`
	Header      http.Header `json:"header,omitempty"`

	LeaseOwner    string    `json:"lease_owner,omitempty"`
	LeaseUntil    time.Time `json:"lease_until,omitzero"`
	LeaseFailures int       `json:"lease_failures,omitempty"`

	Malformed string `json:"malformed,omitempty"`
}

// local answers the commands from the stores.
type local struct {
	meta      *dynamostore.Store
	bodies    isr.BodyStore
	partition isr.Partition
	now       func() time.Time
}

// get reports one page.
func (l *local) get(ctx context.Context, k isr.Key) (report, error) {
	pk := l.partition(k)
	rec, err := l.meta.Read(ctx, pk)
	if err != nil {
		return report{}, err
	}
	r := l.report(pk, rec)
	r.Key = k.String()
	if rec.Entry == nil {
		return r, nil
	}
	r.Header = rec.Entry.Header
	info, err := l.bodies.Stat(ctx, rec.Entry.BodyKey)
	switch {
	case errors.Is(err, isr.ErrNotFound), errors.Is(err, isr.ErrInvalidKey):
		r.BodyProblem = err.Error()
	case err != nil:
		return report{}, err
	case rec.Entry.Foreign:
		r.BodyBytes = info.Length
	case info.Length != rec.Entry.Length:
		r.BodyProblem = fmt.Sprintf("it has %d bytes, %d were published", info.Length, rec.Entry.Length)
	}
	return r, nil
}

// list reports every page to show, until that returns an error.
func (l *local) list(ctx context.Context, show func(report) error) error {
	for listed, err := range l.meta.List(ctx) {
		if err != nil {
			return err
		}
		if err := show(l.report(listed.PK, listed.Record)); err != nil {
			return err
		}
	}
	return nil
}

func (l *local) report(pk string, rec isr.Record) report {
	now := l.now()
	r := report{Partition: pk, State: isr.Freshness(rec.Entry, rec.Cover, now).String()}
	if rec.Malformed != nil {
		r.Malformed = rec.Malformed.Error()
	}
	if lock := rec.Lock; lock != nil && lock.ExpiresAt.After(now) {
		r.LeaseOwner, r.LeaseUntil, r.LeaseFailures = lock.Owner, lock.ExpiresAt.UTC(), lock.Failures
	}
	e := rec.Entry
	if e == nil {
		return r
	}
	r.Key, r.Status, r.Generation, r.ETag = e.Key, e.Status, e.GenerationID, e.ETag
	r.GeneratedAt, r.KeptUntil = e.GeneratedAt.UTC(), e.Expires.UTC()
	if e.Expires.IsZero() {
		r.KeptUntil = time.Time{}
	}
	r.AgeSeconds = int64(e.Age(now) / time.Second)
	r.FreshFor = int64(e.FreshUntil().Sub(now) / time.Second)
	r.StaleFor = int64(e.StaleUntil().Sub(now) / time.Second)
	r.Body, r.BodyBytes, r.Foreign, r.Route, r.Tags = e.BodyKey, e.Length, e.Foreign, e.Route, e.Tags
	return r
}
