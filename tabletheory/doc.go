// Package tabletheory maps Go structs to the items of DynamoDB tables.
package tabletheory
