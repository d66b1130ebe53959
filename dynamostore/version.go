package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/facetheory/isr/store"
)

// Versions implements [store.MetaStore]. It skips malformed versions and versions of other
// services, which have no generation id: Rollback cannot use them.
func (s *Store) Versions(ctx context.Context, pk string) ([]store.Entry, error) {
	ctx = s.metered(ctx, "versions")
	if err := checkPartition(pk); err != nil {
		return nil, err
	}
	newest := s.withPrefix(pk, versionPrefix)
	newest.ScanIndexForward = aws.Bool(false) // ids sort by time
	rows, err := s.query(ctx, newest)
	if err != nil {
		return nil, fmt.Errorf("read the versions of %s: %w", pk, err)
	}
	versions := make([]store.Entry, 0, len(rows))
	for _, found := range rows {
		switch e, err := s.version(ctx, found); {
		case err == nil:
			versions = append(versions, *e)
		case !isMalformed(err) && !errors.Is(err, store.ErrNoVersion):
			return nil, fmt.Errorf("read the versions of %s: %w", pk, err)
		}
	}
	return versions, nil
}

// version decodes a version row. The error is a *[MalformedError], or wraps
// store.ErrNoVersion if another service has written the row.
func (s *Store) version(ctx context.Context, found row) (*store.Entry, error) {
	e, err := s.content(ctx, found)
	if err != nil {
		return nil, err
	}
	if e.Foreign || versionPrefix+e.GenerationID != found.text(attrSK) {
		return nil, fmt.Errorf("%w: the row %s was written by another service", store.ErrNoVersion, found.text(attrSK))
	}
	return e, nil
}

// findVersion reads the version row of a generation with a strongly consistent read.
func (s *Store) findVersion(ctx context.Context, pk, id string) (*store.Entry, error) {
	// DynamoDB would reject a read of such a sort key.
	const longest = 1000
	if id == "" || len(id) > longest || !utf8.ValidString(id) {
		return nil, store.ErrNoVersion
	}
	found, err := s.readRow(ctx, true, pk, versionPrefix+id)
	switch {
	case err != nil:
		return nil, err
	case found == nil:
		return nil, store.ErrNoVersion
	}
	return s.version(ctx, found)
}

func isMalformed(err error) bool {
	_, ok := errors.AsType[*MalformedError](err)
	return ok
}
