package envelope

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"maps"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Open decrypts, in place, those attributes of the names that are there, of an
// item that is stored at place. A data key that several of them share is opened
// once. After an error the attributes are as before; it is one of this package's
// or of the provider's, and names the place.
func Open(ctx context.Context, keys KeyProvider, place Place, attributes map[string]types.AttributeValue, names ...string) error {
	o := opener{ctx: ctx, keys: keys, place: place, opened: map[string]cipher.AEAD{}}
	values := make(map[string]types.AttributeValue, len(names))
	for _, name := range names {
		v, ok := attributes[name]
		if !ok {
			continue
		}
		value, err := o.open(name, v)
		if err != nil {
			return fmt.Errorf("envelope: decrypt %s: %w", place.of(name), err)
		}
		values[name] = value
	}
	maps.Copy(attributes, values)
	return nil
}

// opener opens the attributes of one item.
type opener struct {
	ctx    context.Context
	keys   KeyProvider
	place  Place
	opened map[string]cipher.AEAD // by the sealed data key
}

func (o *opener) open(name string, v types.AttributeValue) (types.AttributeValue, error) {
	s, err := readStored(v)
	if err != nil {
		return nil, err
	}
	ad, err := o.place.additionalData(name)
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
		return nil, fmt.Errorf("%w: what was encrypted is no value of DynamoDB's: %w", ErrMalformed, err)
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
	if err := checkKeySize(plain); err != nil {
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
