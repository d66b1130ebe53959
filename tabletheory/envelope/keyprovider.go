package envelope

import "context"

// KeyProvider makes and opens the data keys of encrypted attributes. Both
// methods are safe for concurrent use.
type KeyProvider interface {
	// NewDataKey makes a key of 32 bytes and returns it in plain and sealed. The
	// sealed key, 1 to 6,144 bytes, is stored with what the plain key encrypts.
	// The caller wipes the plain key; the provider does not keep it.
	NewDataKey(ctx context.Context) (plain, sealed []byte, err error)
	// OpenDataKey opens a key that NewDataKey of this provider, or of one with
	// the same master key, has sealed. Keys sealed under a master key that was
	// rotated since stay readable. The caller wipes the plain key.
	OpenDataKey(ctx context.Context, sealed []byte) (plain []byte, err error)
}
