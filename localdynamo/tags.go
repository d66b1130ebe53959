package localdynamo

import (
	"context"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Limits of tags.
const (
	maxTags     = 50  // of one table
	maxTagKey   = 128 // characters
	maxTagValue = 256 // characters
	awsTag      = "aws:"
)

// TagResource adds tags to the table with this ARN, and replaces tags with the
// same key. A table has at most 50 tags.
func (db *DB) TagResource(ctx context.Context, in *dynamodb.TagResourceInput, _ ...func(*dynamodb.Options)) (*dynamodb.TagResourceOutput, error) {
	in = orEmpty(in)
	switch {
	case in.Tags == nil:
		return nil, errNull("tags")
	case len(in.Tags) == 0:
		return nil, invalid("Atleast one Tag needs to be provided as Input.")
	}
	if _, err := withTags(nil, in.Tags); err != nil {
		return nil, err
	}
	err := db.changeTags(ctx, in.ResourceArn, func(old map[string]string) (map[string]string, error) {
		return withTags(old, in.Tags)
	})
	if err != nil {
		return nil, err
	}
	return &dynamodb.TagResourceOutput{}, nil
}

// UntagResource removes tags from the table with this ARN. Unknown keys are
// ignored.
func (db *DB) UntagResource(ctx context.Context, in *dynamodb.UntagResourceInput, _ ...func(*dynamodb.Options)) (*dynamodb.UntagResourceOutput, error) {
	in = orEmpty(in)
	switch {
	case in.TagKeys == nil:
		return nil, errNull("tagKeys")
	case len(in.TagKeys) == 0:
		return nil, invalid("Atleast one Tag Key needs to be provided as Input.")
	}
	err := db.changeTags(ctx, in.ResourceArn, func(old map[string]string) (map[string]string, error) {
		left := maps.Clone(old)
		maps.DeleteFunc(left, func(key, _ string) bool { return slices.Contains(in.TagKeys, key) })
		return left, nil
	})
	if err != nil {
		return nil, err
	}
	return &dynamodb.UntagResourceOutput{}, nil
}

// ListTagsOfResource returns all tags of the table with this ARN, sorted by key,
// in one page.
func (db *DB) ListTagsOfResource(ctx context.Context, in *dynamodb.ListTagsOfResourceInput, _ ...func(*dynamodb.Options)) (*dynamodb.ListTagsOfResourceOutput, error) {
	if err := db.ready(ctx); err != nil {
		return nil, err
	}
	in = orEmpty(in)
	name, err := resourceName(in.ResourceArn)
	if err != nil {
		return nil, err
	}
	if in.NextToken != nil {
		return nil, invalid("The NextToken is invalid: ListTagsOfResource never returns one")
	}
	t := (*db.tables.Load())[name]
	if t == nil {
		return nil, errResourceNotFound(*in.ResourceArn)
	}
	tags := make([]types.Tag, 0, len(t.Tags))
	for _, key := range slices.Sorted(maps.Keys(t.Tags)) {
		tags = append(tags, types.Tag{Key: aws.String(key), Value: aws.String(t.Tags[key])})
	}
	return &dynamodb.ListTagsOfResourceOutput{Tags: tags}, nil
}

// changeTags replaces the tags of the table with this ARN by the result of change.
func (db *DB) changeTags(ctx context.Context, arn *string, change func(map[string]string) (map[string]string, error)) error {
	name, err := resourceName(arn)
	if err != nil {
		return err
	}
	return db.submit(ctx, func(tx *transaction) error {
		if tx.tables[name] == nil {
			return errResourceNotFound(*arn)
		}
		t, err := tx.tableForUpdate(name)
		if err != nil {
			return err
		}
		if t.Tags, err = change(t.Tags); err != nil {
			return err
		}
		return tx.putTable(t)
	})
}

// resourceName returns the name of the table with this ARN.
func resourceName(arn *string) (string, error) {
	if arn == nil {
		return "", errNull("resourceArn")
	}
	if !strings.HasPrefix(*arn, "arn:") {
		return "", invalid("Invalid TableArn: Invalid ResourceArn provided as input %s", *arn)
	}
	return tableName(arn)
}

func errResourceNotFound(arn string) error {
	return &types.ResourceNotFoundException{Message: aws.String("Requested resource not found: ResourceArn: " + arn + " not found")}
}

// withTags returns old with tags added or replaced, and checks the limits.
func withTags(old map[string]string, tags []types.Tag) (map[string]string, error) {
	all := make(map[string]string, len(old)+len(tags))
	for _, tag := range tags {
		if err := checkTag(tag); err != nil {
			return nil, err
		}
		if _, twice := all[*tag.Key]; twice {
			return nil, invalid("One or more parameter values were invalid: more than one tag has the key %s", *tag.Key)
		}
		all[*tag.Key] = *tag.Value
	}
	for key, value := range old {
		if _, replaced := all[key]; !replaced {
			all[key] = value
		}
	}
	if len(all) > maxTags {
		return nil, invalid("One or more parameter values were invalid: Too many tags: %d; a table has at most %d", len(all), maxTags)
	}
	return all, nil
}

func checkTag(tag types.Tag) error {
	switch {
	case tag.Key == nil:
		return errNull("tags.member.key")
	case tag.Value == nil:
		return errNull("tags.member.value")
	case *tag.Key == "":
		return errConstraint("", "tags.member.key", "Member must have length greater than or equal to 1")
	case utf8.RuneCountInString(*tag.Key) > maxTagKey:
		return errConstraint(*tag.Key, "tags.member.key", "Member must have length less than or equal to 128")
	case utf8.RuneCountInString(*tag.Value) > maxTagValue:
		return errConstraint(*tag.Value, "tags.member.value", "Member must have length less than or equal to 256")
	case strings.HasPrefix(strings.ToLower(*tag.Key), awsTag):
		return invalid("One or more parameter values were invalid: the tag key %s begins with %s, which is reserved for AWS", *tag.Key, awsTag)
	}
	return nil
}
