package envelope

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"maps"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Seal encrypts the named attributes in place, for an item that will be stored at
// location. Absent attributes are skipped. The attributes share a new data key; if all
// are absent, none is generated. After an error attributes is unchanged. Seal replaces
// the values in attributes and does not modify them.
//
// An attribute grows by about 40 bytes, plus its sealed data key (about 180 bytes with
// KMS), plus a third if it is binary, because the plaintext is JSON. This counts towards
// DynamoDB's limit of 400 KB for an item. The length of a value is not hidden.
func Seal(ctx context.Context, keys KeyProvider, location Location, attributes map[string]types.AttributeValue, names ...string) error {
	return make(plaintexts, len(names)).seal(ctx, keys, location, attributes, names)
}

// plaintexts holds the plaintexts to encrypt by attribute name.
type plaintexts map[string][]byte

// seal implements Seal for empty plaintexts. It wipes them in any case.
func (p plaintexts) seal(ctx context.Context, keys KeyProvider, location Location, attributes map[string]types.AttributeValue, names []string) error {
	defer p.wipe()
	if err := p.collect(location, attributes, names); err != nil || len(p) == 0 {
		return err
	}
	sealed, err := p.encrypt(ctx, keys, location)
	if err != nil {
		return err
	}
	maps.Copy(attributes, sealed)
	return nil
}

// wipe zeroes the plaintexts. It does not reach copies left behind when a buffer was
// reallocated.
func (p plaintexts) wipe() {
	for _, text := range p {
		clear(text)
	}
}

// collect adds the plaintexts of the named attributes that are present.
func (p plaintexts) collect(location Location, attributes map[string]types.AttributeValue, names []string) error {
	for _, name := range names {
		v, ok := attributes[name]
		if !ok {
			continue
		}
		if location.hasKey(name) {
			return fmt.Errorf("envelope: encrypt %s: a key attribute cannot be encrypted", location.describe(name))
		}
		text, err := appendValue(nil, v, 1)
		if err != nil {
			return fmt.Errorf("envelope: encrypt %s: %w", location.describe(name), err)
		}
		p[name] = text
	}
	return nil
}

// encrypt encrypts the plaintexts with a new data key.
func (p plaintexts) encrypt(ctx context.Context, keys KeyProvider, location Location) (map[string]types.AttributeValue, error) {
	aead, edk, err := newDataKey(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("envelope: new data key for table %q: %w", location.Table, err)
	}
	sealed := make(map[string]types.AttributeValue, len(p))
	for name, text := range p {
		ad, err := location.additionalData(name)
		if err != nil {
			return nil, fmt.Errorf("envelope: encrypt %s: %w", location.describe(name), err)
		}
		out := aead.Seal(nil, nil, text, ad) // prefixed by the nonce
		sealed[name] = stored{edk: edk, nonce: out[:nonceSize], ct: out[nonceSize:]}.attribute()
	}
	return sealed, nil
}

// newDataKey returns a new data key, as a cipher and sealed. The cipher generates its
// own random nonces, so that callers cannot reuse one.
func newDataKey(ctx context.Context, keys KeyProvider) (cipher.AEAD, []byte, error) {
	plain, edk, err := keys.NewDataKey(ctx)
	defer clear(plain)
	if err != nil {
		return nil, nil, err
	}
	if err := checkDataKeySize(plain); err != nil {
		return nil, nil, err
	}
	if len(edk) < 1 || len(edk) > maxEDKSize {
		return nil, nil, fmt.Errorf("the key provider returned a sealed data key of %d bytes: expected 1 to %d", len(edk), maxEDKSize)
	}
	block, err := aes.NewCipher(plain)
	if err != nil {
		return nil, nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return aead, edk, err
}

func checkDataKeySize(plain []byte) error {
	if len(plain) != dataKeySize {
		return fmt.Errorf("the key provider returned a data key of %d bytes: expected %d", len(plain), dataKeySize)
	}
	return nil
}
