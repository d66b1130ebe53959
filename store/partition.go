package store

import (
	"crypto/sha256"
	"encoding/hex"
)

// A Partition derives the partition key of a cache key. All writers of a table must use the
// same one. The cache calls it with valid keys only (see [ValidKey]), so that a tenant's
// name cannot reach into the partitions of another tenant.
type Partition func(Key) string

// HashedPartition is the default [Partition]: "CACHE#" and the hex SHA-256 of the key's
// text, prefixed with "TENANT#<tenant>#" if there is a tenant. It spreads keys evenly and
// bounds their length.
func HashedPartition(k Key) string {
	sum := sha256.Sum256([]byte(k.Text))
	return tenantPrefix(k.Tenant) + "CACHE#" + hex.EncodeToString(sum[:])
}

// RawPartition is the [Partition] of tables that other services write with readable keys:
// "CACHE#" and the key's text, after the tenant's prefix. DynamoDB limits it to 2,048
// bytes.
func RawPartition(k Key) string {
	return tenantPrefix(k.Tenant) + "CACHE#" + k.Text
}

func tenantPrefix(tenant string) string {
	if tenant == "" {
		return ""
	}
	return "TENANT#" + tenant + "#"
}
