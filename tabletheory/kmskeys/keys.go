// Package kmskeys keeps the master keys of encrypted attributes in AWS KMS. It
// is a package of its own so that only programs that use KMS carry its client.
package kmskeys

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/facetheory/isr/tabletheory/envelope"
)

// API is what [Keys] needs of AWS KMS. *kms.Client satisfies it.
type API interface {
	GenerateDataKey(context.Context, *kms.GenerateDataKeyInput, ...func(*kms.Options)) (*kms.GenerateDataKeyOutput, error)
	Decrypt(context.Context, *kms.DecryptInput, ...func(*kms.Options)) (*kms.DecryptOutput, error)
}

// Keys is a provider whose master keys are in AWS KMS. Every item that is written
// costs one GenerateDataKey, and every item that is read one Decrypt for each
// write that its encrypted attributes come from. It is safe for concurrent use.
type Keys struct {
	api  API
	keys []string // the current one first
}

var _ envelope.KeyProvider = (*Keys)(nil)

// New returns a provider that seals with the symmetric KMS key keyID: a key
// ID, a key ARN, an alias name (alias/…) or an alias ARN. It opens what that key
// or one of the older ones has sealed, and nothing else: with any key accepted,
// whoever writes to the table could have values opened that he has sealed with a
// key of his own account.
//
// KMS's own rotation of a key's material needs nothing here. Who goes over to
// another key names the former one among older, by its key ID or ARN: an alias
// that was pointed at the new key no longer stands for it. Callers need
// kms:GenerateDataKey on the current key and kms:Decrypt on all of them; a
// policy may demand the encryption context {"purpose": "tabletheory-envelope"}.
func New(api API, keyID string, older ...string) *Keys {
	return &Keys{api: api, keys: append([]string{keyID}, older...)}
}

// encryptionContext is authenticated by KMS, and recorded in CloudTrail. It
// keeps what others have sealed with the same key apart; to which item a data
// key belongs is for the additional data of the attributes to say.
func encryptionContext() map[string]string {
	return map[string]string{"purpose": "tabletheory-envelope"}
}

// NewDataKey makes a data key by GenerateDataKey. Errors are KMS's own.
func (k *Keys) NewDataKey(ctx context.Context) (plain, sealed []byte, err error) {
	out, err := k.api.GenerateDataKey(ctx, &kms.GenerateDataKeyInput{
		KeyId:             &k.keys[0],
		KeySpec:           types.DataKeySpecAes256,
		EncryptionContext: encryptionContext(),
	})
	if err != nil {
		return nil, nil, fmt.Errorf("generate it with the KMS key %q: %w", k.keys[0], err)
	}
	return out.Plaintext, out.CiphertextBlob, nil
}

// OpenDataKey opens a data key by Decrypt, with one key after the other until
// KMS says that it is the right one. What no key has sealed is
// [envelope.ErrUnknownKey], what was changed [envelope.ErrTampered]; other errors are KMS's own.
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
		if _, changed := errors.AsType[*types.InvalidCiphertextException](err); changed {
			return nil, fmt.Errorf("its data key: %w: %w", envelope.ErrTampered, err)
		}
		return nil, fmt.Errorf("open its data key with the KMS key %q: %w", key, err)
	}
	return nil, fmt.Errorf("its data key: %w: it was sealed by none of the KMS keys %q: give New the former key's ID among the older ones", envelope.ErrUnknownKey, k.keys)
}
