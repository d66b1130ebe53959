package main

import (
	"fmt"
	"time"
)

// metadata is the META row of a page, with the attributes of the reference document.
// The tags are for tabletheory, attributevalue and guregu/dynamo.
type metadata struct {
	PK string `theorydb:"pk,attr:pk" dynamodbav:"pk" dynamo:"pk,hash"`
	SK string `theorydb:"sk,attr:sk" dynamodbav:"sk" dynamo:"sk,range"`

	S3Key             string `theorydb:"attr:s3_key" dynamodbav:"s3_key" dynamo:"s3_key"`
	GeneratedAt       int64  `theorydb:"attr:generated_at" dynamodbav:"generated_at" dynamo:"generated_at"`
	RevalidateSeconds int64  `theorydb:"attr:revalidate_seconds" dynamodbav:"revalidate_seconds" dynamo:"revalidate_seconds"`
	ETag              string `theorydb:"attr:etag,omitempty" dynamodbav:"etag,omitempty" dynamo:"etag,omitempty"`

	TTL int64 `theorydb:"ttl,attr:ttl,omitempty" dynamodbav:"ttl,omitempty" dynamo:"ttl,omitempty"`
}

func (metadata) TableName() string { return tableName }

const tableName = "pages"

// newMetadata returns a row; rows differ by number.
func newMetadata(number int) metadata {
	return metadata{
		PK: "TENANT#t1#CACHE#9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", SK: fmt.Sprintf("VER#%04d", number),
		S3Key:       "pages/t1/9f86d081884c7d659a2feaa0c55ad015.html",
		GeneratedAt: 1_795_000_000, RevalidateSeconds: 60, ETag: `"9f86d081884c7d65"`, TTL: 1_795_086_400,
	}
}

// user is a struct of 30 fields of mixed kinds. Attributes have the names of the Go
// fields, which attributevalue and guregu/dynamo use by default.
type user struct {
	PK string `theorydb:"pk,attr:PK"`
	SK string `theorydb:"sk,attr:SK"`

	Name    string `theorydb:"attr:Name"`
	Email   string `theorydb:"attr:Email"`
	Phone   string `theorydb:"attr:Phone"`
	Street  string `theorydb:"attr:Street"`
	City    string `theorydb:"attr:City"`
	Country string `theorydb:"attr:Country"`
	Note    string `theorydb:"attr:Note,omitempty" dynamodbav:",omitempty" dynamo:",omitempty"`

	Age       int     `theorydb:"attr:Age"`
	Visits    int64   `theorydb:"attr:Visits"`
	Revision  int64   `theorydb:"attr:Revision"`
	Level     uint8   `theorydb:"attr:Level"`
	Flags     uint32  `theorydb:"attr:Flags"`
	Balance   float64 `theorydb:"attr:Balance"`
	Score     float64 `theorydb:"attr:Score"`
	Elevation float32 `theorydb:"attr:Elevation"`

	Active   bool `theorydb:"attr:Active"`
	Verified bool `theorydb:"attr:Verified"`
	Hidden   bool `theorydb:"attr:Hidden"`

	Created time.Time     `theorydb:"attr:Created"`
	Updated time.Time     `theorydb:"attr:Updated"`
	Timeout time.Duration `theorydb:"attr:Timeout"`

	Avatar   []byte            `theorydb:"attr:Avatar"`
	Tags     []string          `theorydb:"attr:Tags"`
	Roles    []string          `theorydb:"attr:Roles,set" dynamodbav:",stringset" dynamo:",set"`
	Counts   []int             `theorydb:"attr:Counts"`
	Labels   map[string]string `theorydb:"attr:Labels"`
	Referrer *string           `theorydb:"attr:Referrer"`
	Home     address           `theorydb:"attr:Home"`
}

type address struct {
	Street string `theorydb:"attr:Street"`
	City   string `theorydb:"attr:City"`
	Number int    `theorydb:"attr:Number"`
}

func (user) TableName() string { return tableName }

func newUser() user {
	referrer := "https://example.org/"
	return user{
		PK: "USER#42", SK: "PROFILE", Name: "Ada Lovelace", Email: "ada@example.org", Phone: "+44 20 7946 0000",
		Street: "12 St James's Square", City: "London", Country: "GB",
		Age: 36, Visits: 123456, Revision: 7, Level: 3, Flags: 1 << 20, Balance: 1234.56, Score: 0.875, Elevation: 20.5,
		Active: true, Verified: true,
		Created: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Updated: time.Date(2026, 11, 21, 17, 0, 0, 0, time.UTC), Timeout: time.Minute,
		Avatar: []byte("\x89PNG\r\n\x1a\n0123456789"), Tags: []string{"a", "b", "c"}, Roles: []string{"admin", "author"},
		Counts: []int{1, 20, 300}, Labels: map[string]string{"team": "engine", "site": "north"}, Referrer: &referrer,
		Home: address{"12 St James's Square", "London", 12},
	}
}
