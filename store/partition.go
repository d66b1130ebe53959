package store

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
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

const tenantMarker = "TENANT#"

func tenantPrefix(tenant string) string {
	if tenant == "" {
		return ""
	}
	return tenantMarker + tenant + "#"
}

// KeyOf returns the key of an entry that was read from a partition: its text, and the
// tenant that pk begins with. ok is false unless that is the key of this partition, such
// as for an entry without a text.
func KeyOf(partition Partition, pk, text string) (k Key, ok bool) {
	k = Key{Tenant: TenantOf(pk), Text: text}
	return k, ValidKey(k) == nil && partition(k) == pk
}

// TenantOf returns the tenant that a partition key of this package begins with; empty if it
// has none.
func TenantOf(pk string) string {
	rest, found := strings.CutPrefix(pk, tenantMarker)
	if !found {
		return ""
	}
	tenant, _, _ := strings.Cut(rest, "#")
	return tenant
}
