package localdynamo_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
)

func tag(t *testing.T, db *localdynamo.DB, pairs ...string) error {
	t.Helper()
	var tags []types.Tag
	for i := 0; i < len(pairs); i += 2 {
		tags = append(tags, types.Tag{Key: &pairs[i], Value: &pairs[i+1]})
	}
	_, err := db.TagResource(t.Context(), &dynamodb.TagResourceInput{ResourceArn: arnOf(t, db, "things"), Tags: tags})
	return err
}

func arnOf(t *testing.T, db *localdynamo.DB, table string) *string {
	t.Helper()
	return describe(t, db, table).TableArn
}

func describe(t *testing.T, db *localdynamo.DB, table string) *types.TableDescription {
	t.Helper()
	out, err := db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &table})
	if err != nil {
		t.Fatal(err)
	}
	return out.Table
}

// tagsOf returns the tags of a table in the form key=value.
func tagsOf(t *testing.T, db *localdynamo.DB, arn *string) string {
	t.Helper()
	out, err := db.ListTagsOfResource(t.Context(), &dynamodb.ListTagsOfResourceInput{ResourceArn: arn})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, tag := range out.Tags {
		all = append(all, *tag.Key+"="+*tag.Value)
	}
	return strings.Join(all, " ")
}

func TestTags(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	arn := arnOf(t, db, "things")
	equal(t, tagsOf(t, db, arn), "")
	if err := errors.Join(tag(t, db, "b", "1", "a", ""), tag(t, db, "b", "2", "c", "3")); err != nil {
		t.Fatal(err)
	}
	equal(t, tagsOf(t, db, arn), "a= b=2 c=3")
	if _, err := db.UntagResource(t.Context(), &dynamodb.UntagResourceInput{ResourceArn: arn, TagKeys: []string{"b", "none"}}); err != nil {
		t.Fatal(err)
	}
	equal(t, tagsOf(t, db, arn), "a= c=3")
}

func TestTagsOfNewTable(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	in := plainTable("tagged")
	in.Tags = []types.Tag{{Key: aws.String("team"), Value: aws.String("edge")}}
	if _, err := db.CreateTable(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	equal(t, tagsOf(t, db, arnOf(t, db, "tagged")), "team=edge")
	in.TableName, in.Tags[0].Key = aws.String("refused"), aws.String("")
	_, err := db.CreateTable(t.Context(), in)
	wantInvalid(t, err, "tags.member.key")
}

func TestTagLimits(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	var most []string
	for i := range 50 {
		most = append(most, fmt.Sprint("key", i), strings.Repeat("é", 256))
	}
	if err := tag(t, db, most...); err != nil {
		t.Fatal(err)
	}
	if err := tag(t, db, "key7", "replaced"); err != nil {
		t.Errorf("replace one of 50: %v", err)
	}
	for words, pairs := range map[string][]string{
		"at most 50":                         {"one more", ""},
		"Atleast one Tag":                    nil,
		"length less than or equal to 128":   {strings.Repeat("é", 129), ""},
		"length less than or equal to 256":   {"key1", strings.Repeat("é", 257)},
		"length greater than or equal to 1":  {"", ""},
		"reserved for AWS":                   {"AWS:team", ""},
		"more than one tag has the key key1": {"key1", "a", "key1", "b"},
	} {
		if pairs == nil {
			_, err := db.TagResource(t.Context(), &dynamodb.TagResourceInput{ResourceArn: arnOf(t, db, "things"), Tags: []types.Tag{}})
			wantInvalid(t, err, words)
			continue
		}
		wantInvalid(t, tag(t, db, pairs...), words)
	}
}

func TestTagRefusals(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	arn := arnOf(t, db, "things")
	list := func(arn *string) error {
		_, err := db.ListTagsOfResource(t.Context(), &dynamodb.ListTagsOfResourceInput{ResourceArn: arn})
		return err
	}
	wantInvalid(t, list(nil), "resourceArn")
	wantInvalid(t, list(things), "Invalid TableArn")
	wantInvalid(t, list(aws.String("arn:aws:dynamodb:us-east-1:123456789012:table/things")), "Invalid TableArn")
	wantNotFound(t, list(aws.String(*arn+"-not")))
	_, err := db.ListTagsOfResource(t.Context(), &dynamodb.ListTagsOfResourceInput{ResourceArn: arn, NextToken: aws.String("x")})
	wantInvalid(t, err, "NextToken")
	_, err = db.TagResource(t.Context(), &dynamodb.TagResourceInput{ResourceArn: aws.String(*arn + "-not"), Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}}})
	wantNotFound(t, err)
	_, err = db.TagResource(t.Context(), &dynamodb.TagResourceInput{ResourceArn: arn, Tags: []types.Tag{{}}})
	wantInvalid(t, err, "tags.member.key")
	_, err = db.UntagResource(t.Context(), &dynamodb.UntagResourceInput{ResourceArn: arn, TagKeys: []string{}})
	wantInvalid(t, err, "Atleast one Tag Key")
}

func wantNotFound(t *testing.T, err error) {
	t.Helper()
	var missing *types.ResourceNotFoundException
	if !errors.As(err, &missing) {
		t.Errorf("got %v, want a ResourceNotFoundException", err)
	}
}
