// Package kmskeys is a key provider for encrypted attributes whose master keys are in AWS
// KMS. It is a separate package so that only programs that use KMS link its client.
package kmskeys

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/facetheory/isr/tabletheory/envelope"
)

// API is the part of AWS KMS that [Keys] uses. *kms.Client implements it.
type API interface {
	GenerateDataKey(context.Context, *kms.GenerateDataKeyInput, ...func(*kms.Options)) (*kms.GenerateDataKeyOutput, error)
	Decrypt(context.Context, *kms.DecryptInput, ...func(*kms.Options)) (*kms.DecryptOutput, error)
}

// Keys is a key provider with master keys in AWS KMS. Writing an item with encrypted
// attributes costs one GenerateDataKey call. Reading an item costs one Decrypt call for
// each different write that its encrypted attributes come from. It is safe for
// concurrent use.
type Keys struct {
	api  API
	keys []string // the current key first
}

var _ envelope.KeyProvider = (*Keys)(nil)

// New returns a provider that seals with the symmetric KMS key keyID: a key ID, a key
// ARN, an alias name (alias/…) or an alias ARN. It opens only data keys that were sealed
// by keyID or one of the previous keys. If any key were accepted, an attacker with write
// access to the table could plant values sealed with a key of another account.
//
// KMS's automatic rotation of key material needs no change here. To switch to another
// key, pass the old key as previous, by its key ID or ARN: an alias that now points to
// the new key no longer identifies it. Callers need kms:GenerateDataKey on the current
// key and kms:Decrypt on all keys. A policy may require the encryption context
// {"purpose": "tabletheory-envelope"}.
func New(api API, keyID string, previous ...string) *Keys {
	return &Keys{api: api, keys: append([]string{keyID}, previous...)}
}

// encryptionContext is authenticated by KMS and logged by CloudTrail. It separates these
// data keys from other uses of the same key. It does not identify the item: the
// additional data of the attributes does.
func encryptionContext() map[string]string {
	return map[string]string{"purpose": "tabletheory-envelope"}
}

// NewDataKey calls GenerateDataKey. Errors are KMS's own.
func (k *Keys) NewDataKey(ctx context.Context) (plain, sealed []byte, err error) {
	out, err := k.api.GenerateDataKey(ctx, &kms.GenerateDataKeyInput{
		KeyId:             &k.keys[0],
		KeySpec:           types.DataKeySpecAes256,
		EncryptionContext: encryptionContext(),
	})
	if err != nil {
		return nil, nil, fmt.Errorf("generate data key with the KMS key %q: %w", k.keys[0], err)
	}
	return out.Plaintext, out.CiphertextBlob, nil
}

// OpenDataKey calls Decrypt with one key after another until KMS accepts one. The error
// is [envelope.ErrUnknownKey] if no key sealed the data key, [envelope.ErrTampered] if it
// was modified, or KMS's own.
func (k *Keys) OpenDataKey(ctx context.Context, sealed []byte) ([]byte, error) {
	for _, key := range k.keys {
		out, err := k.api.Decrypt(ctx, &kms.DecryptInput{
			KeyId:             &key,
			CiphertextBlob:    sealed,
			EncryptionContext: encryptionContext(),
		})
		if err == nil {
			return out.Plaintext, nil
		}
		if _, other := errors.AsType[*types.IncorrectKeyException](err); other {
			continue
		}
		if _, modified := errors.AsType[*types.InvalidCiphertextException](err); modified {
			return nil, fmt.Errorf("data key: %w: %w", envelope.ErrTampered, err)
		}
		return nil, fmt.Errorf("decrypt data key with the KMS key %q: %w", key, err)
	}
	return nil, fmt.Errorf("data key: %w: not sealed by any of the KMS keys %q: pass the ID of the previous key to kmskeys.New", envelope.ErrUnknownKey, k.keys)
}
