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
	var err error
	if t.keySchema, err = keysOf(in.KeySchema, in.AttributeDefinitions); err != nil {
		return nil, err
	}
	if err := t.setIndexes(in.GlobalSecondaryIndexes, in.LocalSecondaryIndexes, in.AttributeDefinitions); err != nil {
		return nil, err
	}
	return t, t.checkDefinitions(in.AttributeDefinitions)
}

// refuseLeftOut names what this engine does not have, rather than to go on
// without it.
func refuseLeftOut(in *dynamodb.CreateTableInput) error {
	what := ""
	switch {
	case len(in.VectorIndexes) > 0:
		what = "vector indexes"
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

// keysOf checks the key schema of a table or an index.
func keysOf(schema []types.KeySchemaElement, definitions []types.AttributeDefinition) (keySchema, error) {
	switch {
	case len(schema) == 0:
		return keySchema{}, invalid("No defined key schema.  A key schema containing at least a hash key must be defined for all tables")
	case len(schema) > 2:
		return keySchema{}, invalid("Key Schema too big.  Key Schema must at most consist of the hash and range key of a table")
	case schema[0].KeyType != types.KeyTypeHash || len(schema) == 2 && schema[1].KeyType != types.KeyTypeRange:
		return keySchema{}, invalid("Invalid key order. Hash Key must be specified first in key schema, Range Key must be specifed second")
	}
	hash, err := keyAttribute(aws.ToString(schema[0].AttributeName), definitions)
	if err != nil || len(schema) == 1 {
		return keySchema{Hash: hash}, err
	}
	rng, err := keyAttribute(aws.ToString(schema[1].AttributeName), definitions)
	if err == nil && hash.Name == rng.Name {
		err = invalid("Both the Hash Key and the Range Key element in the KeySchema have the same name")
	}
	return keySchema{Hash: hash, Range: &rng}, err
}

// maxKeyName is the longest name of a key attribute, in bytes.
const maxKeyName = 255

func keyAttribute(name string, definitions []types.AttributeDefinition) (attribute, error) {
	if name == "" || len(name) > maxKeyName {
		return attribute{}, errKeyName()
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

func errKeyName() error {
	return invalid("Names of key attributes and attributes projected into an index must be between 1 and 255 characters, inclusive")
}
