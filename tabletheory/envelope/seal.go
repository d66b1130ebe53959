package envelope

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"maps"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Seal encrypts, in place, those attributes of the names that are there, for an
// item that is to be stored at place. They share a new data key; if none is
// there, none is made. After an error the attributes are as before. The values
// that were there are not changed themselves.
//
// An attribute grows by some 40 bytes, its sealed data key (about 180 bytes with
// KMS), and, as it is JSON within, by a third if it is binary; DynamoDB's 400 KB
// for an item include that. Its length is not hidden.
func Seal(ctx context.Context, keys KeyProvider, place Place, attributes map[string]types.AttributeValue, names ...string) error {
	return make(plaintexts, len(names)).seal(ctx, keys, place, attributes, names)
}

// plaintexts are what is to be encrypted, by the names of attributes.
type plaintexts map[string][]byte

// seal is Seal, with plaintexts of which there are none yet. Whatever comes of it,
// they are wiped.
func (p plaintexts) seal(ctx context.Context, keys KeyProvider, place Place, attributes map[string]types.AttributeValue, names []string) error {
	defer p.wipe()
	if err := p.take(place, attributes, names); err != nil || len(p) == 0 {
		return err
	}
	sealed, err := p.encrypt(ctx, keys, place)
	if err != nil {
		return err
	}
	maps.Copy(attributes, sealed)
	return nil
}

// wipe overwrites them; it does not reach what was left behind where a text outgrew
// its place.
func (p plaintexts) wipe() {
	for _, text := range p {
		clear(text)
	}
}

// take adds those attributes of the names that are there.
func (p plaintexts) take(place Place, attributes map[string]types.AttributeValue, names []string) error {
	for _, name := range names {
		v, ok := attributes[name]
		if !ok {
			continue
		}
		if place.has(name) {
			return fmt.Errorf("envelope: %s: a key cannot be encrypted", place.of(name))
		}
		text, err := appendValue(nil, v, 1)
		if err != nil {
			return fmt.Errorf("envelope: encrypt %s: %w", place.of(name), err)
		}
		p[name] = text
	}
	return nil
}

// encrypt encrypts them all under a new data key.
func (p plaintexts) encrypt(ctx context.Context, keys KeyProvider, place Place) (map[string]types.AttributeValue, error) {
	aead, edk, err := newDataKey(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("envelope: a data key for table %q: %w", place.Table, err)
	}
	sealed := make(map[string]types.AttributeValue, len(p))
	for name, text := range p {
		ad, err := place.additionalData(name)
		if err != nil {
			return nil, fmt.Errorf("envelope: encrypt %s: %w", place.of(name), err)
		}
		out := aead.Seal(nil, nil, text, ad) // the nonce comes first
		sealed[name] = stored{edk: edk, nonce: out[:nonceSize], ct: out[nonceSize:]}.attribute()
	}
	return sealed, nil
}

// newDataKey returns a new data key as a cipher that makes its nonces itself, so
// that none can be used twice, and sealed.
func newDataKey(ctx context.Context, keys KeyProvider) (cipher.AEAD, []byte, error) {
	plain, edk, err := keys.NewDataKey(ctx)
	defer clear(plain)
	if err != nil {
		return nil, nil, err
	}
	if err := checkKeySize(plain); err != nil {
		return nil, nil, err
	}
	if len(edk) < 1 || len(edk) > maxEDKSize {
		return nil, nil, fmt.Errorf("the provider returned a sealed key of %d bytes: expected 1 to %d", len(edk), maxEDKSize)
	}
	block, err := aes.NewCipher(plain)
	if err != nil {
		return nil, nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return aead, edk, err
}

func checkKeySize(plain []byte) error {
	if len(plain) != keySize {
		return fmt.Errorf("the provider returned a data key of %d bytes: expected %d", len(plain), keySize)
	}
	return nil
}
