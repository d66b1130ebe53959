// Package sdk has only tests: the AWS SDKs for Go, JavaScript and Python, and the
// aws command, each driving a real isr dynamodb with nothing but another endpoint.
// ./test installs those that are not written in Go.
package sdk
