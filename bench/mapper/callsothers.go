package main

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/expression"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/guregu/dynamo/v2"
)

func (c *calls) getAttributeValue(ctx context.Context) (got metadata, err error) {
	key, err := attributevalue.MarshalMap(struct {
		PK string `dynamodbav:"pk"`
		SK string `dynamodbav:"sk"`
	}{c.meta.PK, c.meta.SK})
	if err != nil {
		return got, err
	}
	out, err := c.api.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String(tableName), Key: key})
	if err != nil {
		return got, err
	}
	return got, attributevalue.UnmarshalMap(out.Item, &got)
}

func (c *calls) getGuregu(ctx context.Context) (got metadata, err error) {
	err = c.guregu.Get("pk", c.meta.PK).Range("sk", dynamo.Equal, c.meta.SK).One(ctx, &got)
	return got, err
}

func (c *calls) getByHand(ctx context.Context) (metadata, error) {
	out, err := c.api.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String(tableName), Key: metadataKey(&c.meta)})
	if err != nil {
		return metadata{}, err
	}
	return metadataOf(out.Item)
}

func (c *calls) putAttributeValue(ctx context.Context) error {
	item, err := attributevalue.MarshalMap(&c.meta)
	if err != nil {
		return err
	}
	_, err = c.api.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(tableName), Item: item})
	return err
}

func (c *calls) putGuregu(ctx context.Context) error { return c.guregu.Put(&c.meta).Run(ctx) }

func (c *calls) putByHand(ctx context.Context) error {
	_, err := c.api.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(tableName), Item: metadataItem(&c.meta)})
	return err
}

func (c *calls) createAttributeValue(ctx context.Context) error {
	item, err := attributevalue.MarshalMap(&c.meta)
	if err != nil {
		return err
	}
	e, err := expression.NewBuilder().WithCondition(expression.AttributeNotExists(expression.Name("pk"))).Build()
	if err != nil {
		return err
	}
	_, err = c.api.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: aws.String(tableName), Item: item,
		ConditionExpression: e.Condition(), ExpressionAttributeNames: e.Names(), ExpressionAttributeValues: e.Values(),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	return err
}

func (c *calls) createGuregu(ctx context.Context) error {
	return c.guregu.Put(&c.meta).If("attribute_not_exists($)", "pk").Run(ctx)
}

func (c *calls) createByHand(ctx context.Context) error {
	_, err := c.api.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: aws.String(tableName), Item: metadataItem(&c.meta),
		ConditionExpression:                 aws.String("attribute_not_exists(pk)"),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	return err
}

func (c *calls) queryAttributeValue(ctx context.Context) (all []metadata, err error) {
	e, err := expression.NewBuilder().WithKeyCondition(expression.Key("pk").Equal(expression.Value(c.meta.PK))).Build()
	if err != nil {
		return nil, err
	}
	in := &dynamodb.QueryInput{
		TableName: aws.String(tableName), KeyConditionExpression: e.KeyCondition(),
		ExpressionAttributeNames: e.Names(), ExpressionAttributeValues: e.Values(),
	}
	for pages := dynamodb.NewQueryPaginator(c.api, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		var items []metadata
		if err := attributevalue.UnmarshalListOfMaps(page.Items, &items); err != nil {
			return nil, err
		}
		all = append(all, items...)
	}
	return all, nil
}

func (c *calls) queryGuregu(ctx context.Context) (all []metadata, err error) {
	err = c.guregu.Get("pk", c.meta.PK).All(ctx, &all)
	return all, err
}

func (c *calls) queryByHand(ctx context.Context) (all []metadata, err error) {
	in := &dynamodb.QueryInput{
		TableName: aws.String(tableName), KeyConditionExpression: aws.String("pk = :pk"),
		ExpressionAttributeValues: item{":pk": &types.AttributeValueMemberS{Value: c.meta.PK}},
	}
	for pages := dynamodb.NewQueryPaginator(c.api, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, i := range page.Items {
			m, err := metadataOf(i)
			if err != nil {
				return nil, err
			}
			all = append(all, m)
		}
	}
	return all, nil
}
