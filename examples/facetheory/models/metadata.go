package models

import "os"

// FaceTheoryCacheMetadata is the META row: the current generation and its render time.
type FaceTheoryCacheMetadata struct {
	PK string `theorydb:"pk,attr:pk" json:"pk"`
	SK string `theorydb:"sk,attr:sk" json:"sk"`

	S3Key             string `theorydb:"attr:s3_key" json:"s3_key"`
	GeneratedAt       int64  `theorydb:"attr:generated_at" json:"generated_at"`
	RevalidateSeconds int64  `theorydb:"attr:revalidate_seconds" json:"revalidate_seconds"`
	ETag              string `theorydb:"attr:etag,omitempty" json:"etag,omitempty"`

	TTL int64 `theorydb:"ttl,attr:ttl,omitempty" json:"ttl,omitempty"`
}

// TableName returns FACETHEORY_CACHE_TABLE_NAME.
func (FaceTheoryCacheMetadata) TableName() string {
	return os.Getenv("FACETHEORY_CACHE_TABLE_NAME")
}
