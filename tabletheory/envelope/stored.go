package envelope

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const (
	version     = 1    // format version
	dataKeySize = 32   // of a data key, in bytes
	nonceSize   = 12   // of AES-GCM, in bytes
	tagSize     = 16   // of AES-GCM, in bytes
	maxEDKSize  = 6144 // of a sealed data key, in bytes: KMS's limit
)

// stored is an encrypted attribute as stored in the table.
type stored struct {
	edk, nonce, ct []byte
}

// attribute returns the stored map.
func (s stored) attribute() types.AttributeValue {
	return &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{
		"v":     &types.AttributeValueMemberN{Value: fmt.Sprint(version)},
		"edk":   &types.AttributeValueMemberB{Value: s.edk},
		"nonce": &types.AttributeValueMemberB{Value: s.nonce},
		"ct":    &types.AttributeValueMemberB{Value: s.ct},
	}}
}

// readStored parses an encrypted attribute. A value that is not a map with a member edk
// is ErrNotEncrypted.
func readStored(v types.AttributeValue) (stored, error) {
	m, ok := v.(*types.AttributeValueMemberM)
	if !ok || m.Value["edk"] == nil {
		return stored{}, fmt.Errorf("%w: to encrypt it, read it with a model without the tag encrypted and write it with this one", ErrNotEncrypted)
	}
	if err := checkVersion(m.Value["v"]); err != nil {
		return stored{}, err
	}
	var s stored
	for _, member := range []struct {
		name     string
		min, max int
		bytes    *[]byte
	}{
		{"edk", 1, maxEDKSize, &s.edk},
		{"nonce", nonceSize, nonceSize, &s.nonce},
		{"ct", tagSize, maxCiphertext, &s.ct},
	} {
		b, ok := m.Value[member.name].(*types.AttributeValueMemberB)
		if !ok {
			return stored{}, fmt.Errorf("%w: member %s is not binary", ErrMalformed, member.name)
		}
		if size := len(b.Value); size < member.min || size > member.max {
			return stored{}, fmt.Errorf("%w: member %s has %d bytes: expected %d to %d", ErrMalformed, member.name, size, member.min, member.max)
		}
		*member.bytes = b.Value
	}
	if len(m.Value) != 4 {
		return stored{}, fmt.Errorf("%w: %d members: expected v, edk, nonce and ct", ErrMalformed, len(m.Value))
	}
	return s, nil
}

// maxCiphertext is the maximum size of an item in DynamoDB, in bytes.
const maxCiphertext = 400 << 10

func checkVersion(v types.AttributeValue) error {
	n, ok := v.(*types.AttributeValueMemberN)
	if !ok {
		return fmt.Errorf("%w: member v is not a number", ErrMalformed)
	}
	if found, err := canonicalNumber(n.Value); err != nil || found != fmt.Sprint(version) {
		return fmt.Errorf("%w: format version %.20s, this program supports version %d: update the program", ErrMalformed, n.Value, version)
	}
	return nil
}
