package main

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/guregu/dynamo/v2"

	"github.com/facetheory/isr/tabletheory"
)

// codingRows returns the rows of marshalling and unmarshalling, without a client.
func codingRows() ([]row, error) {
	meta := newMetadata(1)
	marshal, unmarshal, err := codingOf("META", &meta)
	if err != nil {
		return nil, err
	}
	stored := metadataItem(&meta)
	var encoded item
	marshal.sides = append(marshal.sides, side{
		"by hand", func() error { encoded = metadataItem(&meta); return nil }, func() any { return encoded },
	})
	var decoded metadata
	unmarshal.sides = append(unmarshal.sides, side{
		"by hand", func() (err error) { decoded, err = metadataOf(stored); return err }, func() any { return decoded },
	})
	wide := newUser()
	marshalWide, unmarshalWide, err := codingOf("30 fields", &wide)
	return []row{marshal, unmarshal, marshalWide, unmarshalWide}, err
}

// codingOf returns the rows of one struct.
func codingOf[T any](name string, value *T) (marshal, unmarshal row, err error) {
	ctx, db := context.Background(), tabletheory.New(newBareStub())
	stored, err := attributevalue.MarshalMap(value)
	if err != nil {
		return row{}, row{}, err
	}
	marshal = row{"marshal " + name, []side{
		marshalled("tabletheory", func() (item, error) { return db.MarshalItem(ctx, value) }),
		marshalled("attributevalue", func() (item, error) { return attributevalue.MarshalMap(value) }),
		marshalled("guregu/dynamo", func() (item, error) { return dynamo.MarshalItem(value) }),
	}}
	unmarshal = row{"unmarshal " + name, []side{
		unmarshalled("tabletheory", func(into *T) error { return db.UnmarshalItem(ctx, stored, into) }),
		unmarshalled("attributevalue", func(into *T) error { return attributevalue.UnmarshalMap(stored, into) }),
		unmarshalled("guregu/dynamo", func(into *T) error { return dynamo.UnmarshalItem(stored, into) }),
	}}
	return marshal, unmarshal, nil
}

func marshalled(name string, marshal func() (item, error)) side {
	var last item
	return side{
		name,
		func() (err error) { last, err = marshal(); return err },
		func() any { return last },
	}
}

// unmarshalled decodes into a new struct each time.
func unmarshalled[T any](name string, unmarshal func(into *T) error) side {
	var last *T
	return side{
		name,
		func() error { last = new(T); return unmarshal(last) },
		func() any { return *last },
	}
}
