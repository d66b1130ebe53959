//go:build race

package localdynamo_test

// grown is smaller with the race detector, which makes the same work tenfold.
const grown = 100_000
