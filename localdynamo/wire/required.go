package wire

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// requiredMembers returns the members that AWS's model requires, by struct name. SDKs
// check them before sending, other clients may not, and the engine does not expect nil
// there.
func requiredMembers() map[string]map[string]bool {
	names := map[string]string{
		"BatchGetItemInput":       "RequestItems",
		"BatchWriteItemInput":     "RequestItems",
		"CreateTableInput":        "TableName",
		"DeleteItemInput":         "Key TableName",
		"DeleteTableInput":        "TableName",
		"DescribeTableInput":      "TableName",
		"DescribeTimeToLiveInput": "TableName",
		"GetItemInput":            "Key TableName",
		"ListTagsOfResourceInput": "ResourceArn",
		"PutItemInput":            "Item TableName",
		"QueryInput":              "TableName",
		"ScanInput":               "TableName",
		"TagResourceInput":        "ResourceArn Tags",
		"TransactGetItemsInput":   "TransactItems",
		"TransactWriteItemsInput": "TransactItems",
		"UntagResourceInput":      "ResourceArn TagKeys",
		"UpdateItemInput":         "Key TableName",
		"UpdateTableInput":        "TableName",
		"UpdateTimeToLiveInput":   "TableName TimeToLiveSpecification",

		"AttributeDefinition":                       "AttributeName AttributeType",
		"Condition":                                 "ComparisonOperator",
		"ConditionCheck":                            "ConditionExpression Key TableName",
		"CreateGlobalSecondaryIndexAction":          "IndexName KeySchema Projection",
		"CreateGlobalTableWitnessGroupMemberAction": "RegionName",
		"CreateReplicationGroupMemberAction":        "RegionName",
		"CreateVectorIndexAction":                   "Dimensions DistanceFunction IndexName Projection VectorAttribute",
		"Delete":                                    "Key TableName",
		"DeleteGlobalSecondaryIndexAction":          "IndexName",
		"DeleteGlobalTableWitnessGroupMemberAction": "RegionName",
		"DeleteReplicationGroupMemberAction":        "RegionName",
		"DeleteRequest":                             "Key",
		"DeleteVectorIndexAction":                   "IndexName",
		"DisassociateReplicationGroupMemberAction":  "DisassociationMode RegionName",
		"Get":                                "Key TableName",
		"GlobalSecondaryIndex":               "IndexName KeySchema Projection",
		"KeySchemaElement":                   "AttributeName KeyType",
		"KeysAndAttributes":                  "Keys",
		"LocalSecondaryIndex":                "IndexName KeySchema Projection",
		"ProvisionedThroughput":              "ReadCapacityUnits WriteCapacityUnits",
		"Put":                                "Item TableName",
		"PutRequest":                         "Item",
		"ReplicaGlobalSecondaryIndex":        "IndexName",
		"SearchSchemaElement":                "AttributeName SearchSchemaElementType",
		"StreamSpecification":                "StreamEnabled",
		"Tag":                                "Key Value",
		"TimeToLiveSpecification":            "AttributeName Enabled",
		"TransactGetItem":                    "Get",
		"Update":                             "Key TableName UpdateExpression",
		"UpdateGlobalSecondaryIndexAction":   "IndexName",
		"UpdateReplicationGroupMemberAction": "RegionName",
		"VectorAttributeDefinition":          "AttributeName",
		"VectorIndex":                        "Dimensions DistanceFunction IndexName Projection VectorAttribute",
	}
	sets := make(map[string]map[string]bool, len(names))
	for owner, list := range names {
		sets[owner] = make(map[string]bool)
		for name := range strings.FieldsSeq(list) {
			sets[owner][name] = true
		}
	}
	return sets
}

// maxReported is the maximum number of constraint violations in AWS's message.
const maxReported = 10

// checkRequired returns a ValidationException if required members are absent.
func checkRequired(p *plan, v reflect.Value) error {
	if p.complete(v) || isNameless(v) {
		return nil
	}
	paths := p.missingPaths(v, "", nil)
	paths = paths[:min(len(paths), maxReported)]
	failures := make([]string, len(paths))
	for i, path := range paths {
		failures[i] = "Value null at '" + path + "' failed to satisfy constraint: Member must not be null"
	}
	plural := ""
	if len(failures) > 1 {
		plural = "s"
	}
	return validation(fmt.Sprintf("%d validation error%s detected: %s", len(failures), plural, strings.Join(failures, "; ")))
}

// isNameless reports whether v is a CreateTable without a table name. AWS then checks
// nothing else and has a different message, which the engine returns.
func isNameless(v reflect.Value) bool {
	in, ok := v.Interface().(dynamodb.CreateTableInput)
	return ok && in.TableName == nil
}

// findRequired computes p.checks: whether p or a plan reachable from it has required
// members. Values of other plans need no check.
func (p *plan) findRequired(seen map[*plan]bool) bool {
	if p == nil || seen[p] {
		return p != nil && p.checks
	}
	seen[p] = true
	p.checks = p.elem.findRequired(seen)
	if p.members == nil {
		return p.checks
	}
	for _, f := range p.members.list {
		nested := f.plan.findRequired(seen) // call it for every member
		p.checks = p.checks || f.required || nested
	}
	return p.checks
}

// complete reports whether all required members are present.
func (p *plan) complete(v reflect.Value) bool {
	switch {
	case !p.checks:
		return true
	case p.members != nil:
		for i := range p.members.list {
			f := &p.members.list[i]
			field := v.Field(f.index)
			if f.plan.isAbsent(field) {
				if f.required {
					return false
				}
			} else if !f.plan.complete(field) {
				return false
			}
		}
		return true
	}
	switch v.Kind() {
	case reflect.Pointer:
		return p.elem.complete(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			if !p.elem.complete(v.Index(i)) {
				return false
			}
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			if !p.elem.complete(entries.Value()) {
				return false
			}
		}
	}
	return true
}

// isAbsent reports whether v is the value of an absent member.
func (p *plan) isAbsent(v reflect.Value) bool { return p.absent != nil && p.absent(v) }

// missingPaths appends the paths of absent required members, in AWS's notation.
func (p *plan) missingPaths(v reflect.Value, path string, found []string) []string {
	if p.members != nil {
		for _, f := range p.members.list {
			at := strings.TrimPrefix(path+"."+lowerFirst(f.name), ".")
			field := v.Field(f.index)
			switch {
			case !f.plan.isAbsent(field):
				found = f.plan.missingPaths(field, at, found)
			case f.required:
				found = append(found, at)
			}
		}
		return found
	}
	if !p.checks {
		return found
	}
	switch v.Kind() {
	case reflect.Pointer:
		found = p.elem.missingPaths(v.Elem(), path, found)
	case reflect.Slice:
		for i := range v.Len() {
			found = p.elem.missingPaths(v.Index(i), fmt.Sprintf("%s.%d.member", path, i+1), found)
		}
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			found = p.elem.missingPaths(v.MapIndex(key), path+"."+key.String()+".member", found)
		}
	}
	return found
}
