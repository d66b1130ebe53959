package models

import "os"

// FaceTheoryCacheLease is the LOCK row: the token and the expiry of the lease.
type FaceTheoryCacheLease struct {
	PK string `theorydb:"pk,attr:pk" json:"pk"`
	SK string `theorydb:"sk,attr:sk" json:"sk"`

	LeaseToken     string `theorydb:"attr:lease_token" json:"lease_token"`
	LeaseExpiresAt int64  `theorydb:"attr:lease_expires_at" json:"lease_expires_at"`

	TTL int64 `theorydb:"ttl,attr:ttl,omitempty" json:"ttl,omitempty"`
}

// TableName returns FACETHEORY_CACHE_TABLE_NAME. Both rows are in the same table.
func (FaceTheoryCacheLease) TableName() string {
	return os.Getenv("FACETHEORY_CACHE_TABLE_NAME")
}
