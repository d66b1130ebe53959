package localdynamo

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Settings of a table that say something to AWS, and are only kept here, so
// that a tool which compares what it asked for with what it is told finds no
// difference: bounds of what is spent on demand, and the key of encryption.

// spending bounds the request units per second of a table that is
// PAY_PER_REQUEST; 0 is no bound.
type spending struct {
	Read, Write int64
}

// unbounded is what AWS takes, and gives out, for no bound.
const unbounded = -1

// bounded returns the bounds with those changed that are given.
func (s spending) bounded(given *types.OnDemandThroughput) spending {
	if given == nil {
		return s
	}
	if given.MaxReadRequestUnits != nil {
		s.Read = max(*given.MaxReadRequestUnits, 0)
	}
	if given.MaxWriteRequestUnits != nil {
		s.Write = max(*given.MaxWriteRequestUnits, 0)
	}
	return s
}

// checkSpendingFields checks bounds by themselves, which stand in member.
func checkSpendingFields(member string, given *types.OnDemandThroughput) error {
	if given == nil {
		return nil
	}
	check := func(member string, units *int64) error {
		if units == nil || *units == unbounded {
			return nil
		}
		return checkUnits(member, units)
	}
	return together(check(member+".maxReadRequestUnits", given.MaxReadRequestUnits), check(member+".maxWriteRequestUnits", given.MaxWriteRequestUnits))
}

// setSpending changes the bounds. A table with provisioned units has none.
func (t *table) setSpending(given *types.OnDemandThroughput) error {
	if t.Billing == types.BillingModePayPerRequest {
		t.Spending = t.Spending.bounded(given)
		return nil
	}
	t.Spending = spending{}
	if given != nil {
		return invalid("One or more parameter values were invalid: OnDemandThroughput can only be specified when BillingMode is PAY_PER_REQUEST")
	}
	return nil
}

func (s spending) describe() *types.OnDemandThroughput {
	if s == (spending{}) {
		return nil
	}
	orNone := func(units int64) *int64 {
		if units == 0 {
			units = unbounded
		}
		return &units
	}
	return &types.OnDemandThroughput{MaxReadRequestUnits: orNone(s.Read), MaxWriteRequestUnits: orNone(s.Write)}
}

// kmsPrefix begins the ARN of every key of encryption.
const kmsPrefix = "arn:aws:kms:local:000000000000:key/"

// managedKey stands for the key that AWS makes for DynamoDB in each account.
const managedKey = "00000000-0000-0000-0000-000000000000"

// setEncryption notes the key that a table asks for. Nothing is encrypted.
func (t *table) setEncryption(in *types.SSESpecification) {
	switch {
	case in == nil:
	case !aws.ToBool(in.Enabled):
		t.Encryption = ""
	default:
		key := aws.ToString(in.KMSMasterKeyId)
		if key == "" {
			key = managedKey
		}
		if !strings.HasPrefix(key, "arn:") {
			key = kmsPrefix + key
		}
		t.Encryption = key
	}
}

// describeEncryption returns nil for the key that AWS itself owns.
func (t *table) describeEncryption() *types.SSEDescription {
	if t.Encryption == "" {
		return nil
	}
	return &types.SSEDescription{Status: types.SSEStatusEnabled, SSEType: types.SSETypeKms, KMSMasterKeyArn: &t.Encryption}
}

// checkEncryptionFields checks what is asked for by itself.
func checkEncryptionFields(in *types.SSESpecification) error {
	if in == nil || in.SSEType == "" || in.SSEType == types.SSETypeKms || in.SSEType == types.SSETypeAes256 {
		return nil
	}
	return errConstraint(string(in.SSEType), "sSESpecification.sSEType", "Member must satisfy enum value set: [AES256, KMS]")
}
