package localdynamo

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// define checks a CreateTable request and returns the table that it asks for.
func define(in *dynamodb.CreateTableInput) (*table, error) {
	if err := checkTableName(in.TableName); err != nil {
		return nil, err
	}
	if err := refuseLeftOut(in); err != nil {
		return nil, err
	}
	t := &table{Name: *in.TableName, Billing: in.BillingMode, Deletion: aws.ToBool(in.DeletionProtectionEnabled)}
	if err := t.setThroughput(in); err != nil {
		return nil, err
	}
	return t, t.setKeys(in.KeySchema, in.AttributeDefinitions)
}

// refuseLeftOut names what this engine does not have, rather than to go on
// without it.
func refuseLeftOut(in *dynamodb.CreateTableInput) error {
	what := ""
	switch {
	case len(in.GlobalSecondaryIndexes) > 0 || len(in.LocalSecondaryIndexes) > 0 || len(in.VectorIndexes) > 0:
		what = "secondary indexes"
	case in.StreamSpecification != nil && aws.ToBool(in.StreamSpecification.StreamEnabled):
		what = "streams"
	case in.GlobalTableSourceArn != nil:
		what = "global tables"
	default:
		return nil
	}
	return invalid("localdynamo does not support %s; create the table without", what)
}

func (t *table) setThroughput(in *dynamodb.CreateTableInput) error {
	switch t.Billing {
	case "":
		t.Billing = types.BillingModeProvisioned
	case types.BillingModeProvisioned, types.BillingModePayPerRequest:
	default:
		return invalid("1 validation error detected: Value '%s' at 'billingMode' failed to satisfy constraint: Member must satisfy enum value set: [PROVISIONED, PAY_PER_REQUEST]", t.Billing)
	}
	given := in.ProvisionedThroughput != nil
	if t.Billing == types.BillingModePayPerRequest {
		if given {
			return invalid("One or more parameter values were invalid: Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST")
		}
		return nil
	}
	if !given {
		return invalid("One or more parameter values were invalid: ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED")
	}
	t.Read = aws.ToInt64(in.ProvisionedThroughput.ReadCapacityUnits)
	t.Write = aws.ToInt64(in.ProvisionedThroughput.WriteCapacityUnits)
	if t.Read < 1 || t.Write < 1 {
		return invalid("Table read and write throughput must be at least 1, and cannot be null")
	}
	return nil
}

func (t *table) setKeys(schema []types.KeySchemaElement, definitions []types.AttributeDefinition) error {
	switch {
	case len(schema) == 0:
		return invalid("No defined key schema.  A key schema containing at least a hash key must be defined for all tables")
	case len(schema) > 2:
		return invalid("Key Schema too big.  Key Schema must at most consist of the hash and range key of a table")
	case schema[0].KeyType != types.KeyTypeHash || len(schema) == 2 && schema[1].KeyType != types.KeyTypeRange:
		return invalid("Invalid key order. Hash Key must be specified first in key schema, Range Key must be specifed second")
	}
	keys := make([]attribute, len(schema))
	for i, element := range schema {
		a, err := keyAttribute(aws.ToString(element.AttributeName), definitions)
		if err != nil {
			return err
		}
		keys[i] = a
	}
	t.Hash = keys[0]
	if len(keys) == 2 {
		if keys[0].Name == keys[1].Name {
			return invalid("Both the Hash Key and the Range Key element in the KeySchema have the same name")
		}
		t.Range = &keys[1]
	}
	if len(definitions) != len(keys) {
		return invalid("One or more parameter values were invalid: Number of attributes in KeySchema does not exactly match number of attributes defined in AttributeDefinitions")
	}
	return nil
}

// maxKeyName is the longest name of a key attribute, in bytes.
const maxKeyName = 255

func keyAttribute(name string, definitions []types.AttributeDefinition) (attribute, error) {
	if name == "" || len(name) > maxKeyName {
		return attribute{}, invalid("Names of key attributes and attributes projected into an index must be between 1 and 255 characters, inclusive")
	}
	for _, d := range definitions {
		if aws.ToString(d.AttributeName) != name {
			continue
		}
		switch d.AttributeType {
		case types.ScalarAttributeTypeS, types.ScalarAttributeTypeN, types.ScalarAttributeTypeB:
			return attribute{Name: name, Type: d.AttributeType}, nil
		}
		return attribute{}, invalid("1 validation error detected: Value '%s' at 'attributeDefinitions' failed to satisfy constraint: Member must satisfy enum value set: [B, N, S]", d.AttributeType)
	}
	return attribute{}, invalid("One or more parameter values were invalid: Some index key attributes are not defined in AttributeDefinitions. Keys: [%s]", name)
}
