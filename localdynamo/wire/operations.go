package wire

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/facetheory/isr/localdynamo"
)

// operations returns the supported operations by name.
func operations(structs plans) (map[string]*operation, error) {
	table := make(map[string]*operation)
	for _, o := range []*operation{
		op("BatchGetItem", (*localdynamo.DB).BatchGetItem),
		op("BatchWriteItem", (*localdynamo.DB).BatchWriteItem),
		op("CreateTable", (*localdynamo.DB).CreateTable),
		op("DeleteItem", (*localdynamo.DB).DeleteItem),
		op("DeleteTable", (*localdynamo.DB).DeleteTable),
		op("DescribeEndpoints", (*localdynamo.DB).DescribeEndpoints),
		op("DescribeLimits", (*localdynamo.DB).DescribeLimits),
		op("DescribeTable", (*localdynamo.DB).DescribeTable),
		op("DescribeTimeToLive", (*localdynamo.DB).DescribeTimeToLive),
		op("GetItem", (*localdynamo.DB).GetItem),
		op("ListTables", (*localdynamo.DB).ListTables),
		op("ListTagsOfResource", (*localdynamo.DB).ListTagsOfResource),
		op("PutItem", (*localdynamo.DB).PutItem),
		op("Query", (*localdynamo.DB).Query),
		op("Scan", (*localdynamo.DB).Scan),
		op("TagResource", (*localdynamo.DB).TagResource),
		op("TransactGetItems", (*localdynamo.DB).TransactGetItems),
		op("TransactWriteItems", (*localdynamo.DB).TransactWriteItems),
		op("UntagResource", (*localdynamo.DB).UntagResource),
		op("UpdateItem", (*localdynamo.DB).UpdateItem),
		op("UpdateTable", (*localdynamo.DB).UpdateTable),
		op("UpdateTimeToLive", (*localdynamo.DB).UpdateTimeToLive),
	} {
		if err := o.compile(structs); err != nil {
			return nil, fmt.Errorf("operation %s: %w", o.name, err)
		}
		table[o.name] = o
	}
	return table, nil
}

// unsupported returns the names of AWS's operations that the engine does not support.
func unsupported() map[string]struct{} {
	names := make(map[string]struct{})
	for name := range strings.FieldsSeq(`
		BatchExecuteStatement ExecuteStatement ExecuteTransaction
		CreateBackup DeleteBackup DescribeBackup ListBackups RestoreTableFromBackup
		DescribeContinuousBackups UpdateContinuousBackups RestoreTableToPointInTime
		DescribeExport ExportTableToPointInTime ListExports
		DescribeImport ImportTable ListImports
		CancelBulkOperation DescribeBulkOperation ListBulkOperations StartBulkPutItems
		CreateGlobalTable DescribeGlobalTable DescribeGlobalTableSettings ListGlobalTables
		UpdateGlobalTable UpdateGlobalTableSettings
		DescribeTableReplicaAutoScaling UpdateTableReplicaAutoScaling
		DescribeContributorInsights ListContributorInsights UpdateContributorInsights
		DescribeKinesisStreamingDestination DisableKinesisStreamingDestination
		EnableKinesisStreamingDestination UpdateKinesisStreamingDestination
		DeleteResourcePolicy GetResourcePolicy PutResourcePolicy
		SearchVectors`) {
		names[name] = struct{}{}
	}
	return names
}

// operation is an entry of the operation table.
type operation struct {
	name            string
	inType, outType reflect.Type // the SDK's input and output structs
	in, out         *plan
	run             func(db *localdynamo.DB, ctx context.Context, in any) (any, error)
}

// method is the signature of the engine's methods, the same as of the SDK's client.
type method[In, Out any] func(*localdynamo.DB, context.Context, *In, ...func(*dynamodb.Options)) (*Out, error)

func op[In, Out any](name string, do method[In, Out]) *operation {
	return &operation{
		name:    name,
		inType:  reflect.TypeFor[In](),
		outType: reflect.TypeFor[Out](),
		run: func(db *localdynamo.DB, ctx context.Context, in any) (any, error) {
			return do(db, ctx, in.(*In))
		},
	}
}

func (o *operation) compile(structs plans) (err error) {
	if o.in, err = structs.of(o.inType); err != nil {
		return err
	}
	o.in.findRequired(make(map[*plan]bool))
	o.out, err = structs.of(o.outType)
	return err
}

// decode decodes a body into the engine's input. An error is a SerializationException
// or a ValidationException.
func (o *operation) decode(d *decoder, body []byte) (any, error) {
	if err := d.begin(body); err != nil {
		return nil, err
	}
	in := reflect.New(o.inType)
	if err := o.in.decode(d, in.Elem()); err != nil {
		return nil, err
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	if err := checkRequired(o.in, in.Elem()); err != nil {
		return nil, err
	}
	return in.Interface(), d.deferred
}

// encode appends the body of a response. For an operation without output members, such
// as TagResource, it is empty, as on AWS.
func (o *operation) encode(dst []byte, out any) []byte {
	if len(o.out.members.list) == 0 {
		return dst
	}
	return o.out.encode(dst, reflect.ValueOf(out).Elem())
}
