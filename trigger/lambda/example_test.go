package lambda_test

import (
	"context"
	"log"
	"os"
	"time"

	awslambda "github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/s3body"
	"github.com/facetheory/isr/trigger"
	"github.com/facetheory/isr/trigger/lambda"
)

// The main function of a Lambda function on the stream of a table of products.
func Example() {
	aws, err := config.LoadDefaultConfig(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	table, err := dynamostore.New(dynamodb.NewFromConfig(aws), os.Getenv("ISR_TABLE"), dynamostore.Config{})
	if err != nil {
		log.Fatal(err)
	}
	bodies, err := s3body.New(s3.NewFromConfig(aws), os.Getenv("ISR_BUCKET"), s3body.Config{})
	if err != nil {
		log.Fatal(err)
	}
	cache, err := isr.New(table, bodies, isr.Config{Memory: -1, Poll: -1}) // no background work
	if err != nil {
		log.Fatal(err)
	}
	product, err := trigger.ParseTemplate("tag:product-{payload.keys.id}")
	if err != nil {
		log.Fatal(err)
	}
	purges := trigger.NewDebouncer(cache, table, trigger.Config{Window: 10 * time.Millisecond})
	awslambda.Start(lambda.New(purges, lambda.Config{Templates: []trigger.Template{product}}).DynamoDB)
}
