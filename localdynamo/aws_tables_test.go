package localdynamo_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
)

// The tests of this file check observed responses of AWS to requests about
// tables, literally.

func TestCreateTableErrorTexts(t *testing.T) {
	t.Parallel()
	type in = *dynamodb.CreateTableInput
	const one, constraint = "1 validation error detected: ", "' failed to satisfy constraint: Member must "
	long := strings.Repeat("a", 256)
	index := func(name string) types.GlobalSecondaryIndex {
		return types.GlobalSecondaryIndex{IndexName: &name, KeySchema: keys("g"), Projection: everything}
	}
	local := func(name string) []types.LocalSecondaryIndex {
		return []types.LocalSecondaryIndex{{IndexName: &name, KeySchema: keys("pk", "l"), Projection: everything}}
	}
	db := open(t, localdynamo.Options{})
	for _, test := range []struct {
		words  string
		change func(in)
	}{
		{"The parameter 'TableName' is required but was not present in the request", func(in in) { in.TableName = nil }},
		{one + "Value 'ab' at 'tableName" + constraint + "have length greater than or equal to 3", func(in in) { in.TableName = aws.String("ab") }},
		{one + "Value '" + long + "' at 'tableName" + constraint + "have length less than or equal to 255", func(in in) { in.TableName = &long }},
		{one + "Value 'bad;name' at 'tableName" + constraint + "satisfy regular expression pattern: [a-zA-Z0-9_.-]+", func(in in) { in.TableName = aws.String("bad;name") }},
		{"Invalid KeySchema: Some index key attribute have no definition", func(in in) { in.KeySchema, in.AttributeDefinitions = keys("pk", "pk"), defs("pk") }},
		{
			one + "Value '[KeySchemaElement(attributeName=pk, keyType=HASH), KeySchemaElement(attributeName=sk, keyType=RANGE), KeySchemaElement(attributeName=x, keyType=RANGE)]' at 'keySchema" + constraint + "have length less than or equal to 2",
			func(in in) { in.KeySchema, in.AttributeDefinitions = keys("pk", "sk", "x"), defs("pk", "sk", "x") },
		},
		{one + "Value 'FIRST' at 'keySchema.1.member.keyType" + constraint + "satisfy enum value set: [HASH, RANGE]", func(in in) { in.KeySchema[0].KeyType = "FIRST" }},
		{one + "Value 'BOOL' at 'attributeDefinitions.2.member.attributeType" + constraint + "satisfy enum value set: [B, N, S]", func(in in) { in.AttributeDefinitions = defs("pk", "sk:BOOL") }},
		{one + "Value 'FREE' at 'billingMode" + constraint + "satisfy enum value set: [PROVISIONED, PAY_PER_REQUEST]", func(in in) { in.BillingMode = "FREE" }},
		{
			"2 validation errors detected: Value 'zz' at 'globalSecondaryIndexes.1.member.indexName" + constraint + "have length greater than or equal to 3; Value 'aa' at 'localSecondaryIndexes.1.member.indexName" + constraint + "have length greater than or equal to 3",
			func(in in) {
				in.LocalSecondaryIndexes, in.GlobalSecondaryIndexes = local("aa"), []types.GlobalSecondaryIndex{index("zz")}
			},
		},
		{"One or more parameter values were invalid: Table KeySchema does not have a range key, which is required when specifying a LocalSecondaryIndex", func(in in) {
			in.KeySchema, in.AttributeDefinitions, in.LocalSecondaryIndexes = keys("pk"), defs("pk", "l"), local("local")
		}},
		{"One or more parameter values were invalid: Duplicate index name: same", func(in in) {
			in.AttributeDefinitions, in.GlobalSecondaryIndexes = defs("pk", "sk", "g"), []types.GlobalSecondaryIndex{index("same"), index("same")}
		}},
	} {
		in := plainTable("refused")
		test.change(in)
		_, err := db.CreateTable(t.Context(), in)
		wantMessage(t, err, test.words)
	}
}

func TestDisabledStreamRefusesViewType(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	in := plainTable("streamless")
	in.StreamSpecification = &types.StreamSpecification{StreamEnabled: aws.Bool(false), StreamViewType: types.StreamViewTypeNewImage}
	_, err := db.CreateTable(t.Context(), in)
	wantInvalid(t, err, "StreamViewType")
	_, err = updateTable(t, db, &dynamodb.UpdateTableInput{StreamSpecification: in.StreamSpecification})
	wantInvalid(t, err, "StreamViewType")
	in.StreamSpecification.StreamViewType = ""
	if _, err = db.CreateTable(t.Context(), in); err != nil {
		t.Error(err)
	}
}

// TestStoredSettingsAreDescribed: settings without effect are described as
// requested.
func TestStoredSettingsAreDescribed(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	units := func(read, write int64) *types.OnDemandThroughput {
		return &types.OnDemandThroughput{MaxReadRequestUnits: &read, MaxWriteRequestUnits: &write}
	}
	d := describe(t, db, "things")
	if d.OnDemandThroughput != nil || d.SSEDescription != nil {
		t.Errorf("got %+v, %+v without a request for them", d.OnDemandThroughput, d.SSEDescription)
	}
	in := plainTable("bounded")
	in.OnDemandThroughput, in.SSESpecification = units(10, 5), &types.SSESpecification{Enabled: aws.Bool(true)}
	if _, err := db.CreateTable(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	d = describe(t, db, "bounded")
	equal(t, d.OnDemandThroughput, units(10, 5))
	equal(t, d.SSEDescription.Status, types.SSEStatusEnabled)
	equal(t, d.SSEDescription.SSEType, types.SSETypeKms)
	if arn := aws.ToString(d.SSEDescription.KMSMasterKeyArn); !strings.HasPrefix(arn, "arn:aws:kms:") {
		t.Errorf("KMSMasterKeyArn is %q", arn)
	}
	update := func(in *dynamodb.UpdateTableInput) (*types.TableDescription, error) {
		in.TableName = aws.String("bounded")
		return updateTable(t, db, in)
	}
	d, err := update(&dynamodb.UpdateTableInput{OnDemandThroughput: units(20, -1), SSESpecification: &types.SSESpecification{Enabled: aws.Bool(false)}})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, d.OnDemandThroughput, units(20, -1))
	if d.SSEDescription != nil {
		t.Errorf("got %+v after encryption was disabled", d.SSEDescription)
	}
	_, err = update(&dynamodb.UpdateTableInput{OnDemandThroughput: units(0, 1), SSESpecification: &types.SSESpecification{SSEType: "ROT13"}})
	wantInvalid(t, err, "2 validation errors detected: Value '0' at 'onDemandThroughput.maxReadRequestUnits'")
	provisioned := &types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(1), WriteCapacityUnits: aws.Int64(1)}
	_, err = update(&dynamodb.UpdateTableInput{BillingMode: types.BillingModeProvisioned, ProvisionedThroughput: provisioned, OnDemandThroughput: units(1, 1)})
	wantInvalid(t, err, "OnDemandThroughput can only be specified when BillingMode is PAY_PER_REQUEST")
	if d, err = update(&dynamodb.UpdateTableInput{BillingMode: types.BillingModeProvisioned, ProvisionedThroughput: provisioned}); err != nil || d.OnDemandThroughput != nil {
		t.Errorf("got %+v, %v; want no on-demand limits for a PROVISIONED table", d, err)
	}
}
