package localdynamo

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// The settings in this file have no effect. They are stored and described, so
// that tools such as Terraform find no drift: on-demand throughput limits, warm
// throughput and the encryption key.

// onDemandLimits holds the maximum request units per second of a
// PAY_PER_REQUEST table; 0 means no limit.
type onDemandLimits struct {
	Read, Write int64
}

// noLimit stands for no limit in requests and descriptions.
const noLimit = -1

// with returns s with the members of in that are set.
func (s onDemandLimits) with(in *types.OnDemandThroughput) onDemandLimits {
	if in == nil {
		return s
	}
	if in.MaxReadRequestUnits != nil {
		s.Read = max(*in.MaxReadRequestUnits, 0)
	}
	if in.MaxWriteRequestUnits != nil {
		s.Write = max(*in.MaxWriteRequestUnits, 0)
	}
	return s
}

// checkOnDemandFields checks limits without the table. member is their path in
// the request.
func checkOnDemandFields(member string, in *types.OnDemandThroughput) error {
	if in == nil {
		return nil
	}
	check := func(member string, units *int64) error {
		if units == nil || *units == noLimit {
			return nil
		}
		return checkUnits(member, units)
	}
	return joinFaults(check(member+".maxReadRequestUnits", in.MaxReadRequestUnits), check(member+".maxWriteRequestUnits", in.MaxWriteRequestUnits))
}

// setOnDemandLimits changes the limits. A PROVISIONED table has none.
func (t *table) setOnDemandLimits(in *types.OnDemandThroughput) error {
	if t.Billing == types.BillingModePayPerRequest {
		t.Spending = t.Spending.with(in)
		return nil
	}
	t.Spending = onDemandLimits{}
	if in != nil {
		return invalid("One or more parameter values were invalid: OnDemandThroughput can only be specified when BillingMode is PAY_PER_REQUEST")
	}
	return nil
}

func (s onDemandLimits) describe() *types.OnDemandThroughput {
	if s == (onDemandLimits{}) {
		return nil
	}
	orNone := func(units int64) *int64 {
		if units == 0 {
			units = noLimit
		}
		return &units
	}
	return &types.OnDemandThroughput{MaxReadRequestUnits: orNone(s.Read), MaxWriteRequestUnits: orNone(s.Write)}
}

// Warm throughput of a new on-demand table or index, in units per second.
const (
	initialWarmReads  = 12_000
	initialWarmWrites = 4_000
)

// warmUnits is the warm throughput that was requested for a table or an index, in units
// per second; 0 if it never was.
type warmUnits struct {
	Read, Write int64
}

// leastWarm returns the warm throughput of a table or index without a request: what a new
// on-demand table has, or the provisioned units.
func (t *table) leastWarm(read, write int64) warmUnits {
	if t.Billing == types.BillingModePayPerRequest {
		return warmUnits{initialWarmReads, initialWarmWrites}
	}
	return warmUnits{read, write}
}

// setWarm changes w as requested for what ("table" or an index), whose warm throughput is
// least without a request. It cannot decrease.
func (t *table) setWarm(w *warmUnits, in *types.WarmThroughput, what string, least warmUnits) error {
	if in == nil {
		return nil
	}
	if err := t.checkWarm("Read", what, in.ReadUnitsPerSecond, w.Read, least.Read); err != nil {
		return err
	}
	if err := t.checkWarm("Write", what, in.WriteUnitsPerSecond, w.Write, least.Write); err != nil {
		return err
	}
	if in.ReadUnitsPerSecond != nil {
		w.Read = *in.ReadUnitsPerSecond
	}
	if in.WriteUnitsPerSecond != nil {
		w.Write = *in.WriteUnitsPerSecond
	}
	return nil
}

func (t *table) checkWarm(kind, what string, units *int64, now, least int64) error {
	reason := ""
	switch {
	case units == nil:
		return nil
	case *units < now:
		reason = "current WarmThroughput, decreasing WarmThroughput is not supported"
	case *units >= least:
		return nil
	case t.Billing == types.BillingModePayPerRequest:
		reason = "initial throughput for OnDemand. See: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/on-demand-capacity-mode.html#on-demand-capacity-mode-initial"
	default:
		reason = kind + "CapacityUnits of ProvisionedThroughput"
	}
	return invalid("One or more parameter values were invalid: Requested %sUnitsPerSecond for WarmThroughput for %s is lower than %s", kind, what, reason)
}

// atLeast returns the larger units of each kind.
func (w warmUnits) atLeast(least warmUnits) warmUnits {
	return warmUnits{max(w.Read, least.Read), max(w.Write, least.Write)}
}

func (t *table) describeWarm() *types.TableWarmThroughputDescription {
	w := t.Warm.atLeast(t.leastWarm(t.Read, t.Write))
	return &types.TableWarmThroughputDescription{ReadUnitsPerSecond: &w.Read, WriteUnitsPerSecond: &w.Write, Status: types.TableStatusActive}
}

func (ix *index) describeWarm(t *table) *types.GlobalSecondaryIndexWarmThroughputDescription {
	w := ix.Warm.atLeast(t.leastWarm(ix.Read, ix.Write))
	d := &types.GlobalSecondaryIndexWarmThroughputDescription{ReadUnitsPerSecond: &w.Read, WriteUnitsPerSecond: &w.Write, Status: types.IndexStatusActive}
	if ix.Filling {
		d.Status = types.IndexStatusCreating
	}
	return d
}

// kmsPrefix is the prefix of the ARN of every encryption key.
const kmsPrefix = "arn:aws:kms:local:000000000000:key/"

// managedKey stands for the AWS managed key of DynamoDB (aws/dynamodb).
const managedKey = "00000000-0000-0000-0000-000000000000"

// setEncryption stores the ARN of the requested key. Nothing is encrypted.
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

// describeEncryption returns nil for the AWS owned key, the default.
func (t *table) describeEncryption() *types.SSEDescription {
	if t.Encryption == "" {
		return nil
	}
	return &types.SSEDescription{Status: types.SSEStatusEnabled, SSEType: types.SSETypeKms, KMSMasterKeyArn: &t.Encryption}
}

// checkEncryptionFields checks an encryption setting without the table.
func checkEncryptionFields(in *types.SSESpecification) error {
	if in == nil || in.SSEType == "" || in.SSEType == types.SSETypeKms || in.SSEType == types.SSETypeAes256 {
		return nil
	}
	return errConstraint(string(in.SSEType), "sSESpecification.sSEType", "Member must satisfy enum value set: [AES256, KMS]")
}
