package isr

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// maxKeyLength bounds the canonical text of a key, in bytes. Longer requests
// are not cached.
const maxKeyLength = 4096

// maxTenantLength bounds a tenant's name, in bytes.
const maxTenantLength = 64

// A Key names one cached page. It is comparable, and everything that the
// renderer sees of a request can be told from it.
type Key struct {
	// Tenant is empty on a site without tenants; see [ValidTenant].
	Tenant string
	// Text is the canonical text: host, path, projected query, variant, as in
	// "example.com/news?page=2#rsc=1".
	Text string
}

// String is the key for people: the text, with the tenant before it if there is one.
func (k Key) String() string {
	if k.Tenant == "" {
		return k.Text
	}
	return k.Tenant + ":" + k.Text
}

// A Partition derives the partition key of a cache key. All writers of one
// table must use the same.
type Partition func(Key) string

// HashedPartition is the default [Partition]: "CACHE#" and the hex SHA-256 of
// the key's text, after "TENANT#<tenant>#" where there is a tenant. It spreads
// keys evenly and hides their length.
func HashedPartition(k Key) string {
	sum := sha256.Sum256([]byte(k.Text))
	return tenantPrefix(k.Tenant) + "CACHE#" + hex.EncodeToString(sum[:])
}

// RawPartition is the [Partition] of tables that other services write with
// readable keys: "CACHE#" and the key's text, after the tenant's prefix.
// DynamoDB bounds it to 2,048 bytes.
func RawPartition(k Key) string {
	return tenantPrefix(k.Tenant) + "CACHE#" + k.Text
}

func tenantPrefix(tenant string) string {
	if tenant == "" {
		return ""
	}
	return "TENANT#" + tenant + "#"
}

// ValidTenant returns an error wrapping [ErrInvalidKey] unless the name matches
// ^[A-Za-z0-9._-]{1,64}$.
func ValidTenant(tenant string) error {
	if tenant == "" {
		return fmt.Errorf("%w: the tenant is empty", ErrInvalidKey)
	}
	if len(tenant) > maxTenantLength {
		return fmt.Errorf("%w: the tenant has %d bytes, at most %d are allowed", ErrInvalidKey, len(tenant), maxTenantLength)
	}
	for i := range len(tenant) {
		c := tenant[i]
		if !isAlphanumeric(c) && !strings.ContainsRune("._-", rune(c)) {
			return fmt.Errorf("%w: the tenant %q may have letters, digits, '.', '_' and '-' only", ErrInvalidKey, tenant)
		}
	}
	return nil
}

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// bodyPrefix is where all bodies of a partition lie in the [BodyStore].
func bodyPrefix(pk string) string {
	sum := sha256.Sum256([]byte(pk))
	return "bodies/" + hex.EncodeToString(sum[:]) + "/"
}
