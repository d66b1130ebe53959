//go:build !race

package localdynamo_test

// grown is the number of elements of an input that TestGrowth grows.
const grown = 600_000
