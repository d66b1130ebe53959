package localdynamo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// define validates a CreateTable request and returns the new table. Like AWS it
// checks each member separately first, and then how they fit together:
// throughput, keys, local indexes, global indexes.
func define(in *dynamodb.CreateTableInput) (*table, error) {
	if in.TableName == nil {
		return nil, invalid("The parameter 'TableName' is required but was not present in the request")
	}
	name, err := tableNameAt("tableName", in.TableName)
	if err := joinFaults(err, checkCreateFields(in)); err != nil {
		return nil, err
	}
	if err := checkSupported(unsupportedInCreate(in)); err != nil {
		return nil, err
	}
	if err := checkStream(in.StreamSpecification); err != nil {
		return nil, err
	}
	t := &table{Name: name, Billing: in.BillingMode, Class: in.TableClass, Deletion: aws.ToBool(in.DeletionProtectionEnabled)}
	if t.Tags, err = withTags(nil, in.Tags); err != nil {
		return nil, err
	}
	t.setEncryption(in.SSESpecification)
	if err := t.setThroughput(in.ProvisionedThroughput); err != nil {
		return nil, err
	}
	if err := t.setOnDemandLimits(in.OnDemandThroughput); err != nil {
		return nil, err
	}
	if err := t.setWarm(&t.Warm, in.WarmThroughput, "table", t.leastWarm(t.Read, t.Write)); err != nil {
		return nil, err
	}
	if len(in.KeySchema) > len(in.AttributeDefinitions) {
		return nil, invalid("Invalid KeySchema: Some index key attribute have no definition")
	}
	if t.keySchema, err = keysOf(in.KeySchema, in.AttributeDefinitions, false); err != nil {
		return nil, err
	}
	if err := t.setIndexes(in.GlobalSecondaryIndexes, in.LocalSecondaryIndexes, in.AttributeDefinitions); err != nil {
		return nil, err
	}
	return t, t.checkDefinitions(in.AttributeDefinitions)
}

// checkCreateFields checks each member of the request separately.
func checkCreateFields(in *dynamodb.CreateTableInput) error {
	faults := []error{
		checkDefinitionFields(in.AttributeDefinitions),
		checkBilling(in.BillingMode),
		checkUnitFields("provisionedThroughput", in.ProvisionedThroughput),
		checkKeyFields("keySchema", in.KeySchema),
		checkClass(in.TableClass),
		checkOnDemandFields("onDemandThroughput", in.OnDemandThroughput),
		checkEncryptionFields(in.SSESpecification),
	}
	if len(in.KeySchema) > 2 {
		faults = append(faults, errConstraint(showKeys(in.KeySchema), "keySchema", "Member must have length less than or equal to 2"))
	}
	for i, g := range in.GlobalSecondaryIndexes {
		faults = append(faults, globalRequest(&g).checkFields(fmt.Sprintf("globalSecondaryIndexes.%d.member", i+1)))
	}
	for i, l := range in.LocalSecondaryIndexes {
		faults = append(faults, localRequest(&l).checkFields(fmt.Sprintf("localSecondaryIndexes.%d.member", i+1)))
	}
	return joinFaults(faults...)
}

func unsupportedInCreate(in *dynamodb.CreateTableInput) string {
	switch {
	case len(in.VectorIndexes) > 0:
		return "vector indexes"
	case in.StreamSpecification != nil && aws.ToBool(in.StreamSpecification.StreamEnabled):
		return "streams"
	case in.GlobalTableSourceArn != nil:
		return "global tables"
	case in.ResourcePolicy != nil:
		return "resource policies"
	}
	return ""
}

// checkStream refuses a view type for a disabled stream.
func checkStream(in *types.StreamSpecification) error {
	if in != nil && in.StreamViewType != "" && !aws.ToBool(in.StreamEnabled) {
		return invalid("Invalid StreamViewType: Stream StreamEnabled was false but a StreamViewType was present.")
	}
	return nil
}

// checkSupported refuses a request that uses an unsupported feature, instead of
// ignoring it; "" means that there is none.
func checkSupported(unsupported string) error {
	if unsupported == "" {
		return nil
	}
	return invalid("localdynamo does not support %s; remove them from the request", unsupported)
}

// checkKeyFields checks the elements of a key schema. member is its path in the
// request.
func checkKeyFields(member string, schema []types.KeySchemaElement) error {
	switch {
	case schema == nil:
		return errNull(member)
	case len(schema) == 0:
		return errConstraint("[]", member, "Member must have length greater than or equal to 1")
	}
	var faults []error
	for i, e := range schema {
		at := fmt.Sprintf("%s.%d.member", member, i+1)
		faults = append(faults, checkKeyName(at+".attributeName", e.AttributeName))
		if e.KeyType != types.KeyTypeHash && e.KeyType != types.KeyTypeRange {
			faults = append(faults, errConstraint(string(e.KeyType), at+".keyType", "Member must satisfy enum value set: [HASH, RANGE]"))
		}
	}
	return joinFaults(faults...)
}

// showKeys formats a key schema as AWS's messages do.
func showKeys(schema []types.KeySchemaElement) string {
	elements := make([]string, len(schema))
	for i, e := range schema {
		elements[i] = fmt.Sprintf("KeySchemaElement(attributeName=%s, keyType=%s)", aws.ToString(e.AttributeName), e.KeyType)
	}
	return "[" + strings.Join(elements, ", ") + "]"
}

func checkDefinitionFields(definitions []types.AttributeDefinition) error {
	var faults []error
	for i, d := range definitions {
		at := fmt.Sprintf("attributeDefinitions.%d.member", i+1)
		faults = append(faults, checkKeyName(at+".attributeName", d.AttributeName))
		switch d.AttributeType {
		case types.ScalarAttributeTypeS, types.ScalarAttributeTypeN, types.ScalarAttributeTypeB:
		default:
			faults = append(faults, errConstraint(string(d.AttributeType), at+".attributeType", "Member must satisfy enum value set: [B, N, S]"))
		}
	}
	return joinFaults(faults...)
}

func checkBilling(mode types.BillingMode) error {
	switch mode {
	case "", types.BillingModeProvisioned, types.BillingModePayPerRequest:
		return nil
	}
	return errConstraint(string(mode), "billingMode", "Member must satisfy enum value set: [PROVISIONED, PAY_PER_REQUEST]")
}

func checkClass(class types.TableClass) error {
	switch class {
	case "", types.TableClassStandard, types.TableClassStandardInfrequentAccess:
		return nil
	}
	return errConstraint(string(class), "tableClass", "Member must satisfy enum value set: [STANDARD, STANDARD_INFREQUENT_ACCESS]")
}

// setThroughput sets the billing mode and units of a new table.
func (t *table) setThroughput(in *types.ProvisionedThroughput) error {
	if t.Billing == "" {
		t.Billing = types.BillingModeProvisioned
	}
	if t.Billing == types.BillingModePayPerRequest {
		return t.setOnDemand(in)
	}
	return t.setProvisioned(in)
}

func (t *table) setOnDemand(in *types.ProvisionedThroughput) error {
	if in != nil {
		return invalid("One or more parameter values were invalid: Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST")
	}
	t.Billing, t.Read, t.Write = types.BillingModePayPerRequest, 0, 0
	return nil
}

func (t *table) setProvisioned(in *types.ProvisionedThroughput) error {
	if in == nil {
		return invalid("One or more parameter values were invalid: ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED")
	}
	t.Billing, t.Read, t.Write = types.BillingModeProvisioned, *in.ReadCapacityUnits, *in.WriteCapacityUnits
	return nil
}

// checkUnitFields checks provisioned units, which may be nil. member is their
// path in the request.
func checkUnitFields(member string, in *types.ProvisionedThroughput) error {
	if in == nil {
		return nil
	}
	return joinFaults(checkUnits(member+".writeCapacityUnits", in.WriteCapacityUnits), checkUnits(member+".readCapacityUnits", in.ReadCapacityUnits))
}

func checkUnits(member string, units *int64) error {
	switch {
	case units == nil:
		return errNull(member)
	case *units < 1:
		return errConstraint(strconv.FormatInt(*units, 10), member, "Member must have value greater than or equal to 1")
	}
	return nil
}

// keysOf converts the key schema of a table, a local index or a global one.
// checkKeyFields has passed.
func keysOf(schema []types.KeySchemaElement, definitions []types.AttributeDefinition, global bool) (keySchema, error) {
	if len(schema) > 2*maxKeyAttributes { // before each is looked up
		if err := checkKeyElements(schema, global); err != nil {
			return keySchema{}, err
		}
	}
	keys := make([]attribute, len(schema))
	for i, e := range schema {
		at := slices.IndexFunc(definitions, func(d types.AttributeDefinition) bool { return *d.AttributeName == *e.AttributeName })
		if at < 0 {
			return keySchema{}, errUndefinedKey(schema, definitions)
		}
		keys[i] = attribute{Name: *e.AttributeName, Type: definitions[at].AttributeType}
	}
	if err := checkKeyElements(schema, global); err != nil {
		return keySchema{}, err
	}
	n := 1 // attributes of the hash key
	for n < len(keys) && schema[n].KeyType == types.KeyTypeHash {
		n++
	}
	k := keySchema{Hash: keys[0], MoreHash: orNil(keys[1:n])}
	if n < len(keys) {
		k.Range, k.MoreRange = &keys[n], orNil(keys[n+1:])
	}
	return k, nil
}

// orNil returns nil for no attributes.
func orNil(attributes []attribute) []attribute {
	if len(attributes) == 0 {
		return nil
	}
	return attributes
}

// checkKeyElements checks the order, number and names of the elements of a key schema.
func checkKeyElements(schema []types.KeySchemaElement, global bool) error {
	var hashes, ranges int
	names := make(map[string]struct{}, len(schema))
	ordered := true
	for _, e := range schema {
		if e.KeyType == types.KeyTypeHash {
			ordered = ordered && ranges == 0
			hashes++
		} else {
			ranges++
		}
		names[*e.AttributeName] = struct{}{}
	}
	switch {
	case len(names) < len(schema) && len(schema) == 2:
		return invalid("Both the Hash Key and the Range Key element in the KeySchema have the same name")
	case len(names) < len(schema):
		return invalid("The KeySchema contains multiple key attributes with the same name")
	case schema[0].KeyType != types.KeyTypeHash:
		return invalid("Invalid KeySchema: The first KeySchemaElement is not a HASH key type")
	case !global && hashes == 2:
		return invalid("Invalid KeySchema: The second KeySchemaElement is not a RANGE key type")
	case !ordered:
		return invalid("One or more parameter values were invalid: All HASH key attributes must precede RANGE key attributes in the KeySchema")
	case hashes > maxKeyAttributes:
		return invalid("One or more parameter values were invalid: The KeySchema exceeds the maximum allowed number of HASH key attributes")
	case ranges > maxKeyAttributes:
		return invalid("One or more parameter values were invalid: The KeySchema exceeds the maximum allowed number of RANGE key attributes")
	}
	return nil
}

func errUndefinedKey(schema []types.KeySchemaElement, definitions []types.AttributeDefinition) error {
	keys := make([]string, len(schema))
	for i, e := range schema {
		keys[i] = *e.AttributeName
	}
	return invalid("One or more parameter values were invalid: Some index key attributes are not defined in AttributeDefinitions. Keys: [%s], AttributeDefinitions: [%s]",
		strings.Join(keys, ", "), listNames(definitions))
}

// checkDefinitions refuses attribute definitions that no key uses.
func (t *table) checkDefinitions(definitions []types.AttributeDefinition) error {
	used := t.definitions()
	switch {
	case len(definitions) == len(used):
		return nil
	case len(t.Indexes) == 0:
		return invalid("One or more parameter values were invalid: Number of attributes in KeySchema does not exactly match number of attributes defined in AttributeDefinitions")
	}
	return errUnusedDefinitions(definitions, used)
}

func errUnusedDefinitions(definitions, used []types.AttributeDefinition) error {
	return invalid("One or more parameter values were invalid: Some AttributeDefinitions are not used. AttributeDefinitions: [%s], keys used: [%s]", listNames(definitions), listNames(used))
}

func listNames(definitions []types.AttributeDefinition) string {
	names := make([]string, len(definitions))
	for i, d := range definitions {
		names[i] = *d.AttributeName
	}
	return strings.Join(names, ", ")
}

// maxKeyName is the maximum length of a key attribute's name, in bytes.
const maxKeyName = 255

// checkKeyName checks the name of a key attribute. member is its path in the
// request.
func checkKeyName(member string, name *string) error {
	if name == nil {
		return errNull(member)
	}
	if *name == "" || len(*name) > maxKeyName {
		return errKeyName()
	}
	return nil
}

func errKeyName() error {
	return invalid("Names of key attributes and attributes projected into an index must be between 1 and 255 characters, inclusive")
}
