package dynamostore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/facetheory/isr/store"
)

const (
	variantPrefix = "VARIANT#"
	// variantMargin is how much longer, in seconds, a variant stays listed than its entry
	// is kept.
	variantMargin = 86_400
	// maxVariants bounds the limit of Variants.
	maxVariants = 10_000
)

// variantRow is a stored variant of a page, in the partition of the page without a variant:
// the row VARIANT#<hex sha256 of the text of its key>.
type variantRow struct {
	location

	Key   string  `theorydb:"attr:key"`
	Until horizon `theorydb:"attr:listed_until"`
	TTL   horizon `theorydb:"ttl,attr:ttl,omitempty"`
}

// AddVariant implements [store.VariantStore]. It costs a write unit, also if the variant is
// listed already.
func (s *Store) AddVariant(ctx context.Context, pk string, k store.Key, until time.Time) error {
	ctx = s.metered(ctx, "list variant")
	row, err := s.variant(pk, k, until)
	if err == nil {
		// Only ever extended: of two processes, one may be about to pin the variant, and
		// the other to render it.
		err = s.execute(ctx, operation{bounded: true, refused: ignoreRefusal, send: func(ctx context.Context) error {
			return s.db.WithContext(ctx).Model(row).
				WithConditionExpression("attribute_not_exists(pk) OR NOT listed_until >= :until", row.until()).
				Update("Key", "Until", "TTL")
		}})
	}
	if err != nil {
		return fmt.Errorf("list the variant %.200s of a page: %w", k, err)
	}
	return nil
}

// RemoveVariant implements [store.VariantStore]. It costs a write unit.
func (s *Store) RemoveVariant(ctx context.Context, pk string, k store.Key, until time.Time) error {
	ctx = s.metered(ctx, "list variant")
	row, err := s.variant(pk, k, until)
	if err == nil {
		err = s.execute(ctx, operation{bounded: true, refused: ignoreRefusal, send: func(ctx context.Context) error {
			return s.db.WithContext(ctx).Model(row).WithConditionExpression("listed_until = :until", row.until()).Delete()
		}})
	}
	if err != nil {
		return fmt.Errorf("remove the variant %.200s from the list of a page: %w", k, err)
	}
	return nil
}

// variant returns the row of a variant that is listed until a time; zero is for ever.
func (s *Store) variant(pk string, k store.Key, until time.Time) (*variantRow, error) {
	if err := checkPartition(pk); err != nil {
		return nil, err
	}
	if err := store.ValidKey(k); err != nil {
		return nil, err
	}
	if _, isVariant := k.WithoutVariant(); !isVariant {
		return nil, fmt.Errorf("%w: the key names no variant", store.ErrInvalidInput)
	}
	if err := checkMoment("the end of a variant", until); err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrInvalidInput, err)
	}
	digest := sha256.Sum256([]byte(k.Text))
	row := &variantRow{location: s.at(pk, variantPrefix+hex.EncodeToString(digest[:])), Key: k.Text, Until: maxMoment}
	if end := ceilSeconds(until); !until.IsZero() && end < maxMoment-variantMargin {
		row.Until, row.TTL = horizon(end), horizon(end+variantMargin)
	}
	return row, nil
}

// until returns the end of the listing, for a condition.
func (r *variantRow) until() map[string]any { return map[string]any{":until": int64(r.Until)} }

// Variants implements [store.VariantStore]. It costs a read unit for about 15 variants with
// keys of 100 bytes, and one if there are none.
func (s *Store) Variants(ctx context.Context, pk string, limit int) (texts []string, more bool, err error) {
	ctx = s.metered(ctx, "variants")
	if err := checkPartition(pk); err != nil {
		return nil, false, fmt.Errorf("list variants: %w", err)
	}
	limit = min(max(limit, 1), maxVariants)
	variants := s.withPrefix(pk, variantPrefix)
	variants.Limit = aws.Int32(int32(limit) + 1)
	for found, err := range s.pages(ctx, variants) {
		if err != nil {
			return nil, false, fmt.Errorf("list the variants of %s: %w", pk, err)
		}
		if len(texts) == limit {
			return texts, true, nil
		}
		if text := found.text("key"); text != "" { // another writer's row names no page
			texts = append(texts, text)
		}
	}
	return texts, false, nil
}
