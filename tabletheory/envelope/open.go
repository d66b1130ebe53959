package envelope

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"maps"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Open decrypts the named attributes in place, for an item stored at location. Absent
// attributes are skipped. A data key that several attributes share is opened once.
// After an error attributes is unchanged. The error wraps one of this package's errors
// or the provider's, and names the location.
func Open(ctx context.Context, keys KeyProvider, location Location, attributes map[string]types.AttributeValue, names ...string) error {
	o := opener{ctx: ctx, keys: keys, location: location, opened: map[string]cipher.AEAD{}}
	values := make(map[string]types.AttributeValue, len(names))
	for _, name := range names {
		v, ok := attributes[name]
		if !ok {
			continue
		}
		value, err := o.open(name, v)
		if err != nil {
			return fmt.Errorf("envelope: decrypt %s: %w", location.describe(name), err)
		}
		values[name] = value
	}
	maps.Copy(attributes, values)
	return nil
}

// opener opens the attributes of one item.
type opener struct {
	ctx      context.Context
	keys     KeyProvider
	location Location
	opened   map[string]cipher.AEAD // data keys by their sealed form
}

func (o *opener) open(name string, v types.AttributeValue) (types.AttributeValue, error) {
	s, err := readStored(v)
	if err != nil {
		return nil, err
	}
	ad, err := o.location.additionalData(name)
	if err != nil {
		return nil, err
	}
	aead, err := o.dataKey(s.edk)
	if err != nil {
		return nil, err
	}
	text, err := aead.Open(nil, s.nonce, s.ct, ad)
	if err != nil {
		return nil, ErrTampered
	}
	defer clear(text)
	value, err := parseValue(text)
	if err != nil {
		return nil, fmt.Errorf("%w: the plaintext is not a DynamoDB value: %w", ErrMalformed, err)
	}
	return value, nil
}

func (o *opener) dataKey(edk []byte) (cipher.AEAD, error) {
	if aead, ok := o.opened[string(edk)]; ok {
		return aead, nil
	}
	plain, err := o.keys.OpenDataKey(o.ctx, edk)
	defer clear(plain)
	if err != nil {
		return nil, err
	}
	if err := checkDataKeySize(plain); err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(plain)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	o.opened[string(edk)] = aead
	return aead, nil
}
