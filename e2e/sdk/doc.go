// Package sdk has only tests: the AWS SDKs for Go, JavaScript and Python and the aws
// command each use a real isr dynamodb, with only the endpoint changed. ./test installs
// those that are not written in Go.
package sdk
