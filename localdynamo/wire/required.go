package wire

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// requiredMembers are the members that AWS's model requires, by the name of
// their struct. The SDKs see to them before they send; other clients may not,
// and the engine must not meet a nil where its own callers cannot have one.
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

// maxReported is how many constraint failures AWS reports at once.
const maxReported = 10

// missing complains about required members that are not there; nil if none is.
func missing(p *plan, v reflect.Value) error {
	if p.complete(v) || isNameless(v) {
		return nil
	}
	paths := p.absentees(v, "", nil)
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

// isNameless reports whether v asks for a table without a name. AWS has other
// words for that, which the engine says, and it looks at nothing else then.
func isNameless(v reflect.Value) bool {
	in, ok := v.Interface().(dynamodb.CreateTableInput)
	return ok && in.TableName == nil
}

// demand finds out whether the plan, or one that it leads to, has required
// members: where none has, nothing needs to be looked at.
func (p *plan) demand(seen map[*plan]bool) bool {
	if p == nil || seen[p] {
		return p != nil && p.checks
	}
	seen[p] = true
	p.checks = p.elem.demand(seen)
	if p.members == nil {
		return p.checks
	}
	for _, f := range p.members.list {
		below := f.plan.demand(seen) // of all of them
		p.checks = p.checks || f.required || below
	}
	return p.checks
}

// complete reports whether everything required is there.
func (p *plan) complete(v reflect.Value) bool {
	switch {
	case !p.checks:
		return true
	case p.members != nil:
		for i := range p.members.list {
			f := &p.members.list[i]
			field := v.Field(f.index)
			if f.plan.lacks(field) {
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

// lacks reports whether a member's value is that of one that is not there.
func (p *plan) lacks(v reflect.Value) bool { return p.absent != nil && p.absent(v) }

// absentees adds the paths of what complete misses, in AWS's notation.
func (p *plan) absentees(v reflect.Value, path string, found []string) []string {
	if p.members != nil {
		for _, f := range p.members.list {
			at := strings.TrimPrefix(path+"."+lowerFirst(f.name), ".")
			field := v.Field(f.index)
			switch {
			case !f.plan.lacks(field):
				found = f.plan.absentees(field, at, found)
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
		found = p.elem.absentees(v.Elem(), path, found)
	case reflect.Slice:
		for i := range v.Len() {
			found = p.elem.absentees(v.Index(i), fmt.Sprintf("%s.%d.member", path, i+1), found)
		}
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			found = p.elem.absentees(v.MapIndex(key), path+"."+key.String()+".member", found)
		}
	}
	return found
}
