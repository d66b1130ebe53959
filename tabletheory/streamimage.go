package tabletheory

import (
	"context"
	"fmt"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// UnmarshalStreamImage decodes an image of a DynamoDB Streams record, as a Lambda function
// gets it (NewImage, OldImage or Keys), into dest, a pointer to a struct of a model. It is
// otherwise like [DB.UnmarshalItem].
func (db *DB) UnmarshalStreamImage(ctx context.Context, image map[string]events.DynamoDBAttributeValue, dest any) error {
	item, err := streamItem(image)
	if err != nil {
		return fmt.Errorf("tabletheory: unmarshal stream image: %w", err)
	}
	return db.UnmarshalItem(ctx, item, dest)
}

func streamItem(image map[string]events.DynamoDBAttributeValue) (model.Item, error) {
	item := make(model.Item, len(image))
	for name, value := range image {
		av, err := streamValue(value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		item[name] = av
	}
	return item, nil
}

// streamValue returns the value as the SDK has it. The zero value of an event's attribute
// counts as NULL.
func streamValue(value events.DynamoDBAttributeValue) (types.AttributeValue, error) {
	if value.IsNull() {
		return &types.AttributeValueMemberNULL{Value: true}, nil
	}
	switch value.DataType() {
	case events.DataTypeString:
		return &types.AttributeValueMemberS{Value: value.String()}, nil
	case events.DataTypeNumber:
		return &types.AttributeValueMemberN{Value: value.Number()}, nil
	case events.DataTypeBinary:
		return &types.AttributeValueMemberB{Value: value.Binary()}, nil
	case events.DataTypeBoolean:
		return &types.AttributeValueMemberBOOL{Value: value.Boolean()}, nil
	case events.DataTypeStringSet:
		return &types.AttributeValueMemberSS{Value: value.StringSet()}, nil
	case events.DataTypeNumberSet:
		return &types.AttributeValueMemberNS{Value: value.NumberSet()}, nil
	case events.DataTypeBinarySet:
		return &types.AttributeValueMemberBS{Value: value.BinarySet()}, nil
	case events.DataTypeList:
		return streamList(value.List())
	case events.DataTypeMap:
		m, err := streamItem(value.Map())
		return &types.AttributeValueMemberM{Value: m}, err
	case events.DataTypeNull: // above
	}
	return nil, fmt.Errorf("unknown data type %d", value.DataType())
}

func streamList(values []events.DynamoDBAttributeValue) (types.AttributeValue, error) {
	list := make([]types.AttributeValue, len(values))
	for i, value := range values {
		av, err := streamValue(value)
		if err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
		list[i] = av
	}
	return &types.AttributeValueMemberL{Value: list}, nil
}
