// Package aws has only tests: that the policies in deploy/cloudformation/store.yaml are what isr
// needs, no less and no more. The suites of the stores and the commands run against DynamoDB Local, versitygw
// and ElasticMQ through a proxy (guard) that answers 403 to each call that a policy does not allow, as AWS
// does. docs/aws.md is tried as it is written, too.
package aws
