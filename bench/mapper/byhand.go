package main

import (
	"errors"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

type item = map[string]types.AttributeValue

// metadataItem encodes a metadata without a mapper.
func metadataItem(m *metadata) item {
	i := item{
		"pk":                 &types.AttributeValueMemberS{Value: m.PK},
		"sk":                 &types.AttributeValueMemberS{Value: m.SK},
		"s3_key":             &types.AttributeValueMemberS{Value: m.S3Key},
		"generated_at":       &types.AttributeValueMemberN{Value: strconv.FormatInt(m.GeneratedAt, 10)},
		"revalidate_seconds": &types.AttributeValueMemberN{Value: strconv.FormatInt(m.RevalidateSeconds, 10)},
	}
	if m.ETag != "" {
		i["etag"] = &types.AttributeValueMemberS{Value: m.ETag}
	}
	if m.TTL != 0 {
		i["ttl"] = &types.AttributeValueMemberN{Value: strconv.FormatInt(m.TTL, 10)}
	}
	return i
}

// metadataKey returns the key of a metadata.
func metadataKey(m *metadata) item {
	return item{"pk": &types.AttributeValueMemberS{Value: m.PK}, "sk": &types.AttributeValueMemberS{Value: m.SK}}
}

// metadataOf decodes an item without a mapper.
func metadataOf(i item) (metadata, error) {
	var m metadata
	err := errors.Join(
		text(i, "pk", &m.PK), text(i, "sk", &m.SK), text(i, "s3_key", &m.S3Key), text(i, "etag", &m.ETag),
		integer(i, "generated_at", &m.GeneratedAt), integer(i, "revalidate_seconds", &m.RevalidateSeconds), integer(i, "ttl", &m.TTL),
	)
	return m, err
}

func text(i item, name string, into *string) error {
	switch v := i[name].(type) {
	case nil:
		return nil
	case *types.AttributeValueMemberS:
		*into = v.Value
		return nil
	}
	return errors.New(name + " is not a string")
}

func integer(i item, name string, into *int64) (err error) {
	switch v := i[name].(type) {
	case nil:
		return nil
	case *types.AttributeValueMemberN:
		*into, err = strconv.ParseInt(v.Value, 10, 64)
		return err
	}
	return errors.New(name + " is not a number")
}
