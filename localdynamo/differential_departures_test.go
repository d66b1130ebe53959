package localdynamo_test

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/value"
)

// departure is a known difference between DynamoDB Local and AWS. FIDELITY.md has
// the same list.
type departure struct {
	name string
	why  string
	// normalize removes the effects of the difference from both replies.
	normalize func(c apiCall, ours, theirs *reply)
}

var departures = []departure{
	{
		name: "error texts",
		why:  "some of DynamoDB Local's error texts differ from AWS's, which differ between regions",
		normalize: func(_ apiCall, ours, theirs *reply) {
			if ours.code != "" && theirs.code != "" {
				ours.normalizeText()
				theirs.normalizeText()
			}
		},
	},
	{
		name: "invalid comparison in a key condition",
		why:  "DynamoDB Local has an internal failure",
		normalize: func(_ apiCall, ours, theirs *reply) {
			if theirs.code == "InternalFailure" && ours.message == "Attempted conditional constraint is not an indexable operation" {
				*theirs = *ours
			}
		},
	},
	{
		name: "start key of a Query by the whole primary key",
		why:  "AWS refuses it for a table without a sort key, where at most one item matches; DynamoDB Local accepts it",
		normalize: func(_ apiCall, ours, theirs *reply) {
			if theirs.code == "" && strings.HasPrefix(ours.message, "The query can return at most one row and cannot be restarted") {
				*theirs = *ours
			}
		},
	},
	{
		name: "capacity of missing items",
		why:  "AWS counts one unit for reading a missing item, half if eventually consistent; in a batch DynamoDB Local counts none",
		normalize: func(c apiCall, ours, theirs *reply) {
			if in, ok := c.in.(*dynamodb.BatchGetItemInput); ok && ours.code == "" && missing(in, ours) {
				ours.content, theirs.content = without(ours.content, "ConsumedCapacity"), without(theirs.content, "ConsumedCapacity")
			}
		},
	},
	{
		name: "half an index key",
		why:  "an item with only one of an index's two key attributes is not in the index and consumes no capacity there; DynamoDB Local counts it",
		normalize: func(_ apiCall, ours, theirs *reply) {
			if strings.Contains(show(theirs.content), `-`+halfKeys+`"`) && ours.code == "" && theirs.code == "" {
				ours.content, theirs.content = without(ours.content, "ConsumedCapacity"), without(theirs.content, "ConsumedCapacity")
			}
		},
	},
	{
		name: "fetches of a local index",
		why:  "a Scan of a local index reads unprojected attributes from the table; AWS counts that, DynamoDB Local does not",
		normalize: func(c apiCall, ours, theirs *reply) {
			_, ok := c.in.(*dynamodb.ScanInput)
			our, _ := members(members(ours.content)["Capacity"])["CapacityUnits"].(float64)
			their, _ := members(members(theirs.content)["Capacity"])["CapacityUnits"].(float64)
			if ok && their > 0 && our > their {
				ours.content, theirs.content = without(ours.content, "Capacity"), without(theirs.content, "Capacity")
			}
		},
	},
	{
		name: "read units of TransactGetItems",
		why:  "AWS sets ReadCapacityUnits for the table too; DynamoDB Local only for the total",
		normalize: func(c apiCall, ours, _ *reply) {
			if _, ok := c.in.(*dynamodb.TransactGetItemsInput); ok && ours.code == "" {
				ours.content = eachMember(ours.content, func(m map[string]any) map[string]any {
					if table := members(m["Table"]); table != nil {
						m["Table"] = without(table, "ReadCapacityUnits")
					}
					return m
				})
			}
		},
	},
	{
		name:      "number formats",
		why:       "AWS returns canonical numbers; DynamoDB Local returns 1.0 and 1e1 as written or computed",
		normalize: func(_ apiCall, _, theirs *reply) { theirs.content = eachMember(theirs.content, canonicalNumbers) },
	},
	{
		name:      "capacity of empty pages",
		why:       "AWS counts at least one unit, half if eventually consistent, for every Query and Scan; DynamoDB Local counts none if nothing was read",
		normalize: func(_ apiCall, ours, theirs *reply) { ignoreEmptyPageCapacity(ours, theirs) },
	},
	{
		name: "capacity of a deletion",
		why:  "for an absent item, DeleteItem of DynamoDB Local reports the capacity even if not requested",
		normalize: func(_ apiCall, ours, theirs *reply) {
			if members(ours.content)["ConsumedCapacity"] == nil {
				theirs.content = without(theirs.content, "ConsumedCapacity")
			}
		},
	},
	{
		name: "last key at the exact end",
		why:  "on AWS a page that ends by Limit or 1 MB has a LastEvaluatedKey even if no item follows; DynamoDB Local checks for a next item",
		normalize: func(_ apiCall, ours, theirs *reply) {
			if members(theirs.content)["LastEvaluatedKey"] == nil {
				ours.content = without(ours.content, "LastEvaluatedKey")
			}
		},
	},
	{
		name: "capacity of several writes",
		why:  "AWS counts writes in a transaction twice, and no others; DynamoDB Local counts changes in it four times, omits some if it only deletes, and counts deletions in a batch twice",
		normalize: func(c apiCall, ours, theirs *reply) {
			if onlyDeletes(c) && ours.code == "" && theirs.code == "" {
				ours.content, theirs.content = without(ours.content, "ConsumedCapacity"), without(theirs.content, "ConsumedCapacity")
			}
			switch c.in.(type) {
			case *dynamodb.TransactWriteItemsInput, *dynamodb.BatchWriteItemInput:
				if ours.code == "" && theirs.code == "" {
					theirs.content = withinFactorTwo(theirs.content, ours.content)
				}
			}
		},
	},
	{
		name: "start key at the end",
		why:  "AWS returns the last item's key as LastEvaluatedKey and accepts it as a start key; DynamoDB Local refuses it if there is a condition on the range key",
		normalize: func(c apiCall, ours, theirs *reply) {
			nothing := ours.code == "" && members(ours.content)["ScannedCount"] == int32(0)
			if nothing && theirs.message == "The provided starting key does not match the range key predicate" {
				*theirs = *ours
			}
		},
	},
	{
		name: "parts of updated attributes",
		why:  "UPDATED_OLD and UPDATED_NEW of AWS return the values at the paths of the update; DynamoDB Local returns whole attributes",
		normalize: func(c apiCall, ours, theirs *reply) {
			in, ok := c.in.(*dynamodb.UpdateItemInput)
			ok = ok && (in.ReturnValues == types.ReturnValueUpdatedOld || in.ReturnValues == types.ReturnValueUpdatedNew)
			if ok && isSubset(members(ours.content)["Attributes"], members(theirs.content)["Attributes"]) {
				ours.content, theirs.content = without(ours.content, "Attributes"), without(theirs.content, "Attributes")
			}
		},
	},
	{
		name: "errors that cancel a transaction",
		why:  "on AWS an error that depends on a stored item cancels the transaction, on DynamoDB Local it is a ValidationException; for a key of the wrong type AWS's text is that it does not match the schema",
		normalize: func(c apiCall, ours, theirs *reply) {
			_, get := c.in.(*dynamodb.TransactGetItemsInput)
			stage := stageOfReply(theirs)
			sameFault := hasReason(ours, "ValidationError", theirs.message) || (stage == stageItem || stage == stageKeys || get && stage != stageUnknown) && hasReason(ours, "ValidationError", "")
			sameFault = sameFault || isNumberRangeError(theirs.message) && hasReason(ours, "ValidationError", "") // of a sum
			mistyped := hasReason(ours, "ValidationError", "The provided key element does not match the schema") &&
				hasReason(theirs, "ValidationError", "One or more parameter values were invalid: Type mismatch for key")
			if theirs.code == "ValidationException" && sameFault || mistyped {
				*theirs = *ours
			}
		},
	},
	{
		name: "empty projections in TransactGetItems",
		why:  "for an item with none of the projected attributes AWS returns no Item; DynamoDB Local returns an empty one",
		normalize: func(c apiCall, _, theirs *reply) {
			if _, ok := c.in.(*dynamodb.TransactGetItemsInput); ok {
				theirs.content = eachMember(theirs.content, withoutEmptyItem)
			}
		},
	},
	{
		name: "update without an expression",
		why:  "after an update without an expression, DynamoDB Local fails to return the updated attributes",
		normalize: func(c apiCall, ours, theirs *reply) {
			in, ok := c.in.(*dynamodb.UpdateItemInput)
			if ok && in.UpdateExpression == nil && in.AttributeUpdates == nil && theirs.code == "InternalFailure" {
				*theirs = *ours
			}
		},
	},
	{
		name: "filters on unprojected attributes",
		why:  "the filter of a Scan on AWS treats attributes that the index does not project as absent; DynamoDB Local filters whole items",
		normalize: func(c apiCall, ours, theirs *reply) {
			if filtersPartialItems(c) && theirs.code == "" {
				*theirs = *ours
			}
		},
	},
	{
		name: "errors in table definitions",
		why:  "DynamoDB Local's texts differ for nearly every error in a table's definition, and it looks up the table first",
		normalize: func(c apiCall, ours, theirs *reply) {
			if isDefinition(c) && ours.code == "ValidationException" && theirs.code != "" {
				*theirs = *ours
			}
		},
	},
	{
		name: "description of a deleted table",
		why:  "AWS's response to DeleteTable omits the table's keys, indexes and creation time; DynamoDB Local's contains them",
		normalize: func(c apiCall, ours, theirs *reply) {
			if _, ok := c.in.(*dynamodb.DeleteTableInput); ok {
				theirs.content = eachMember(theirs.content, func(m map[string]any) map[string]any {
					for _, name := range []string{"AttributeDefinitions", "KeySchema", "CreationDateTime", "GlobalSecondaryIndexes", "LocalSecondaryIndexes"} {
						delete(m, name)
					}
					return m
				})
			}
		},
	},
	{
		name: "units of on-demand indexes",
		why:  "an on-demand table and its indexes have no provisioned units; DynamoDB Local keeps the units of the indexes",
		normalize: func(_ apiCall, _, theirs *reply) {
			theirs.content = eachMember(theirs.content, withoutUnits)
		},
	},

	{
		name: "deletion of a local index",
		why:  "UpdateTable of AWS looks only for global indexes; DynamoDB Local's error says that the index is not global",
		normalize: func(_ apiCall, ours, theirs *reply) {
			if ours.code == "ResourceNotFoundException" && theirs.message == "Cannot delete an index that is not a GlobalSecondaryIndex" {
				*theirs = *ours
			}
		},
	},
	{
		name: "order of checks",
		why:  "if a request has several errors, DynamoDB Local does not report the one that AWS finds first; see stages",
		normalize: func(c apiCall, ours, theirs *reply) {
			if ours.code != "" && theirs.code != "" {
				allowOtherOrder(c, ours, theirs)
			}
		},
	},
}

// divergence is a known difference after which the stored state differs. It ends
// the round.
type divergence struct {
	name string
	why  string
	when func(c apiCall, ours, theirs *reply) bool
}

var divergences = []divergence{
	{
		name: "failed definition",
		why:  "DynamoDB Local sometimes has an internal failure when a table or an index is created",
		when: func(c apiCall, _, theirs *reply) bool { return isDefinition(c) && theirs.code == "InternalFailure" },
	},
	{
		name: "unfinished index",
		why:  "DynamoDB Local sometimes never finishes adding or deleting an index",
		when: func(c apiCall, _, theirs *reply) bool { return strings.HasSuffix(theirs.message, errUnsettled.Error()) },
	},
	{
		name: "units of an index",
		why:  "if a table becomes PROVISIONED, AWS requires units for every global index too; DynamoDB Local does not",
		when: func(_ apiCall, ours, theirs *reply) bool {
			return theirs.code == "" && strings.Contains(ours.message, "ProvisionedThroughput must be specified for index")
		},
	},
	{
		name: "units of a table",
		why:  "AWS requires provisioned units with the billing mode; DynamoDB Local only if the table has none",
		when: func(c apiCall, ours, theirs *reply) bool {
			_, ok := c.in.(*dynamodb.UpdateTableInput)
			return ok && theirs.code == "" && strings.Contains(ours.message, "must both be specified when BillingMode is PROVISIONED")
		},
	},
	{
		name: "unused attribute definitions",
		why:  "AWS refuses definitions of attributes that no key uses; DynamoDB Local only if the table has no index",
		when: func(_ apiCall, ours, theirs *reply) bool {
			return theirs.code == "" && strings.Contains(ours.message, "Some AttributeDefinitions are not used")
		},
	},
}

// diverged reports whether the sides have diverged in a known way.
func diverged(c apiCall, ours, theirs *reply) bool {
	return slices.ContainsFunc(divergences, func(p divergence) bool { return p.when(c, ours, theirs) })
}

// normalizeReplies applies all departures, and sorts lists without a defined
// order.
func normalizeReplies(c apiCall, ours, theirs *reply) {
	for _, d := range departures {
		d.normalize(c, ours, theirs)
	}
	for _, a := range []*reply{ours, theirs} {
		a.content = eachMember(a.content, withoutVolatile)
	}
	if c.unordered {
		for _, a := range []*reply{ours, theirs} {
			a.content = eachMember(a.content, sortedItems)
		}
	}
}

// withoutVolatile removes the members of a table's description that legitimately
// differ, and sorts lists without a defined order.
func withoutVolatile(m map[string]any) map[string]any {
	for _, name := range []string{
		"TableId", "TableArn", "IndexArn", "TableStatus", "IndexStatus", "Backfilling", "ItemCount", "TableSizeBytes", "IndexSizeBytes",
		"NumberOfDecreasesToday", "WarmThroughput", "OnDemandThroughput",
	} {
		delete(m, name)
	}
	for _, name := range []string{"AttributeDefinitions", "GlobalSecondaryIndexes", "LocalSecondaryIndexes"} {
		if list, ok := m[name].([]any); ok {
			m[name] = sortedByText(list)
		}
	}
	return m
}

// sortedItems sorts the items of a Query or Scan, and of each table of a batch.
func sortedItems(m map[string]any) map[string]any {
	if items, ok := m["Items"].([]any); ok {
		m["Items"] = sortedByText(items)
	}
	for name, items := range members(m["Responses"]) {
		if items, ok := items.([]any); ok {
			members(m["Responses"])[name] = sortedByText(items)
		}
	}
	return m
}

func members(content any) map[string]any {
	m, _ := content.(map[string]any)
	return m
}

// without returns content without one member.
func without(content any, name string) any {
	m := members(content)
	if m[name] == nil {
		return content
	}
	out := make(map[string]any, len(m))
	for k, v := range m {
		if k != name {
			out[k] = v
		}
	}
	return out
}

// withoutEmptyItem removes an Item without attributes.
func withoutEmptyItem(m map[string]any) map[string]any {
	if found, ok := m["Item"].(map[string]any); ok && len(found) == 0 && len(m) == 1 {
		return map[string]any{}
	}
	return m
}

// eachMember returns a copy of content with fn applied to every map in it.
func eachMember(content any, fn func(map[string]any) map[string]any) any {
	switch c := content.(type) {
	case map[string]any:
		out := make(map[string]any, len(c))
		for k, v := range c {
			out[k] = eachMember(v, fn)
		}
		return fn(out)
	case []any:
		out := make([]any, len(c))
		for i, v := range c {
			out[i] = eachMember(v, fn)
		}
		return out
	}
	return content
}

// canonicalNumbers makes a number or a set of numbers canonical.
func canonicalNumbers(m map[string]any) map[string]any {
	if len(m) != 1 {
		return m
	}
	if n, ok := m["N"].(string); ok {
		return map[string]any{"N": canonicalNumber(n)}
	}
	if set, ok := m["NS"].([]any); ok {
		var texts []string
		for _, n := range set {
			if n, ok := n.(string); ok {
				texts = append(texts, canonicalNumber(n))
			}
		}
		return map[string]any{"NS": sortedTexts(texts)}
	}
	return m
}

func canonicalNumber(n string) string {
	if c, err := value.Canonical(n); err == nil {
		return c
	}
	return n
}

// ignoreEmptyPageCapacity removes the capacity from both replies if nothing was
// read, theirs is 0 and ours is the minimum.
func ignoreEmptyPageCapacity(ours, theirs *reply) {
	for _, name := range []string{"ConsumedCapacity", "Capacity"} {
		our, their := members(members(ours.content)[name]), members(members(theirs.content)[name])
		least := our["CapacityUnits"] == 0.5 || our["CapacityUnits"] == 1.0
		if members(theirs.content)["ScannedCount"] == int32(0) && their["CapacityUnits"] == 0.0 && least {
			ours.content, theirs.content = without(ours.content, name), without(theirs.content, name)
		}
	}
}

// messagePatterns maps error texts that differ between the sides to a shared text
// for comparison. Most patterns are for texts of DynamoDB Local.
var messagePatterns = []struct{ pattern, shared string }{
	{`^(?:Invalid table/index name\. .*|\d validation errors? detected: Value '[^']*' at '[\w.]*(?:[tT]able|[iI]ndex)Name' .*|1 validation error detected: .* Map keys must satisfy constraint: .*)$`, "Invalid table/index name"},
	{`^(?:The batch write request list for a table cannot be null or empty: \S+|1 validation error detected: Value '\{\S+=\[\]\}' at 'requestItems' .*)$`, "No requests for a table"},
	{`^(?:The list of keys in RequestItems for BatchGetItem is required: \S+ has empty list|1 validation error detected: Value at 'RequestItems\.\S+\.member\.Keys' .* greater than or equal to 1)$`, "No keys for a table"},
	{`^(?:Too many items requested for the Batch(?:Get|Write)Item call|1 validation error detected: Value at 'RequestItems\.\S+' .* less than or equal to \d+)$`, "Too many items"},
	{`^(?:Batch(?:GetItem must have some requests set|WriteItem cannot have a null or no requests set)|1 validation error detected: Value at 'RequestItems' .*)$`, "No requests"},
	{`^1 validation error detected: (Value |Failed )`, "1: $1"},
	{`^1 validation error detected: `, ""}, // prefix of AWS's errors in PutItem, UpdateItem and DeleteItem that do not depend on the table
	{`^1: `, "1 validation error detected: "},
	{`^ExpressionAttributeValues contains invalid value: (.*) for key \S+$`, "$1"}, // not in all operations
	{`^(ExpressionAttributeValues can only be specified when using expressions):.*$`, "$1"},
	{`^ReturnValues can only be ALL_OLD or NONE$`, "Return values set to invalid value"},
	{`^1 validation error detected: Value '\S*' at 'returnValues' .*$`, "Return values set to invalid value"},
	{`^Cannot do operations on a non-existent table$`, "Requested resource not found"},
	{`^Requested resource not found: Table: .* not found$`, "Requested resource not found"},
	{`^Cannot create preexisting table$`, "Table already exists"},
	{`^(Table already exists): .*$`, "$1"},
	{`^The conditional request failed\.$`, "The conditional request failed"},
	{`A value provided cannot be converted into a number`, "The parameter cannot be converted to a numeric value"},
	{`(The parameter cannot be converted to a numeric value): ?.*?( for key .*)?$`, "$1$2"}, // AWS quotes the text
	{`DynamoDB only supports precision up to 38 digits`, "Attempting to store more than 38 significant digits in a Number"},
	{`^The number of conditions on the keys is invalid$`, "The provided key element does not match the schema"},
	{`^One of the required keys was not given a value$`, "One or more parameter values were invalid: Missing the key in the item"},
	{`^(One or more parameter values were invalid: Missing the key) \S+ (in the item)$`, "$1 $2"}, // AWS names it
	{`^(One or more parameter values were invalid: Type mismatch for key).*$`, "$1"},              // AWS names it
	{`^The provided starting key does not match the range key predicate$`, "The provided starting key is outside query boundaries based on provided conditions"},
	{`^\d+ validation errors? detected: `, "1 validation error detected: "}, // AWS counts them all
	{`^(One or more parameter values were invalid: Type mismatch for Index Key).*$`, "$1"},
	{`^Hash primary key values must be under 2048 bytes, and range primary key values must be under 1024 bytes$`, "A key is too long"},
	{`^One or more parameter values were invalid: (?:Size of hashkey|Aggregated size of all range keys) has exceeded .*$`, "A key is too long"},
	{`^(?:ExpressionAttributeValues contains invalid value: )?(Nesting Levels have exceeded supported limits).*$`, "$1"},
	{`(Expression size has exceeded the maximum allowed size);.*$`, "$1"},
	{`^.*(Member must have length) .*$`, "$1"},
	{`^(One or more parameter values are not valid\.) .*secondary index key.*$`, "$1 secondary index key"},
	{`(action (?:with value )?is not supported for the type) \w+`, "$1"}, // S, or STRING
	{`(?:Global s|S)econdary index (\S+) does not project .*$`, "Secondary index $1 does not project"},
	{`^(?:Limit must be|1 validation error detected: Value (?:.* )?at '[lL]imit' failed to satisfy constraint: Member must have value) greater than or equal to 1$`, "Limit must be 1 or more"},
	{`^(?:Select must be .*|1 validation error detected: Value '.*' at 'select' .*)$`, "Select must be known"},
	{`^Consistent read cannot be true when (?:querying|scanning) a GSI$`, "Consistent reads are not supported on global secondary indexes"},
	{`^Cannot have two attributes with the same name$`, "One or more parameter values were invalid: Duplicate value in attribute name"},
	{`^(One or more parameter values were invalid: Duplicate value in attribute name): .*$`, "$1"},
	{`(must be used with ComparisonOperator|cannot be used when Exists is \w+ for Attribute|when Exists is (?:true|false) for Attribute): .*$`, "$1"}, // which of several is named differs
	{`ComparisonOperator \w+ is not valid for \w+ AttributeValue type`, "ComparisonOperator is not valid"},
	{`(Invalid number of argument\(s\) for the) \w+ `, "$1 "},
	{`, typeSet: ALLOWED_FOR_\w+$`, ""},
	{`path one: .*, path two: .*$`, "..."}, // DynamoDB Local names paths that do not overlap
	{`valid types: \{.*\}$`, "..."},
	{`(?:One or more parameter values were invalid: )?Input collection (?:\[.*\] ?)?(?:of type BS )?contains duplicates\.?`, "Input collection contains duplicates"},
	{`^Invalid KeyConditionExpression: (KeyConditionExpressions|Invalid condition|Invalid operator)`, "$1"},
	{`^The number of query conditions .*$`, "Conditions can be of length 1 or 2 only"},
	{`^(Query condition missed key schema element): .*$`, "$1"},
	{`^Exclusive Start Key must have same size as table's key schema$`, "The provided key element does not match the schema"},
	{`^Specified idempotent token was used with different request parameters.*$`, ""}, // the SDK does not decode DynamoDB Local's text
	{`token: .*$`, "..."}, // the length of the quotation differs
	{`lower bound operand: .*, upper bound operand: .*$`, "..."},                                                // a Java object, for binaries
	{`(An expression attribute (?:name|value) used in .* is not defined; attribute (?:name|value)): .*$`, "$1"}, // which of several is named differs
	{`(unused in expressions): keys: .*$`, "$1"},                                                                // in any order
	{`(Incorrect operand type for operator or function); .*$`, "$1"},                                            // which of several is named differs
	{`^(?:The query can return at most one row and cannot be restarted\. )?The provided starting key is invalid: `, ""},
	{`(can only be specified when using expressions): .* null$`, "$1"},
	{`^(1 validation error detected): .*[sS]egment.*$`, "$1: segment"},
}

var compiledPatterns = func() []*regexp.Regexp {
	out := make([]*regexp.Regexp, len(messagePatterns))
	for i, w := range messagePatterns {
		out[i] = regexp.MustCompile(w.pattern)
	}
	return out
}()

// normalizeText replaces the texts of an error by shared ones.
func (a *reply) normalizeText() {
	a.message = normalizeMessage(a.message)
	a.content = eachMember(a.content, func(m map[string]any) map[string]any {
		if text, ok := m["Message"].(string); ok {
			m["Message"] = normalizeMessage(text)
		}
		return m
	})
}

func normalizeMessage(message string) string {
	for i, w := range compiledPatterns {
		message = w.ReplaceAllString(message, messagePatterns[i].shared)
	}
	return message
}

// hasReason reports whether a is a cancellation with a reason of this code and
// message; "" matches any message.
func hasReason(a *reply, code, message string) bool {
	reasons, _ := members(a.content)["CancellationReasons"].([]any)
	return slices.ContainsFunc(reasons, func(r any) bool {
		return members(r)["Code"] == code && (message == "" || members(r)["Message"] == message)
	})
}

// missing reports whether fewer items were found than requested.
func missing(in *dynamodb.BatchGetItemInput, ours *reply) bool {
	requested, found := 0, 0
	for _, keys := range in.RequestItems {
		requested += len(keys.Keys)
	}
	for _, items := range members(members(ours.content)["Responses"]) {
		list, _ := items.([]any)
		found += len(list)
	}
	return found < requested
}

// withoutUnits sets the units of an on-demand table's indexes to 0.
func withoutUnits(m map[string]any) map[string]any {
	if members(m["BillingModeSummary"])["BillingMode"] != "PAY_PER_REQUEST" {
		return m
	}
	indexes, _ := m["GlobalSecondaryIndexes"].([]any)
	for _, ix := range indexes {
		if units := members(members(ix)["ProvisionedThroughput"]); units != nil {
			units["ReadCapacityUnits"], units["WriteCapacityUnits"] = int64(0), int64(0)
		}
	}
	return m
}

// isSubset reports whether removing members of whole can yield part.
func isSubset(part, whole any) bool {
	switch p := part.(type) {
	case map[string]any:
		w := members(whole)
		for name, v := range p {
			if w[name] == nil || !isSubset(v, w[name]) {
				return false
			}
		}
		return w != nil
	case []any:
		w, _ := whole.([]any)
		for _, v := range p {
			i := slices.IndexFunc(w, func(e any) bool { return isSubset(v, e) })
			if i < 0 {
				return false
			}
			w = w[i+1:]
		}
		return true
	}
	return part == whole
}

// withinFactorTwo replaces their numbers by ours where they differ by at most a
// factor of two.
func withinFactorTwo(theirs, ours any) any {
	switch t := theirs.(type) {
	case map[string]any:
		out := make(map[string]any, len(t))
		for k, v := range t {
			out[k] = withinFactorTwo(v, members(ours)[k])
		}
		return out
	case []any:
		o, _ := ours.([]any)
		out := make([]any, len(t))
		for i, v := range t {
			if i < len(o) {
				v = withinFactorTwo(v, o[i])
			}
			out[i] = v
		}
		return out
	case float64:
		if o, ok := ours.(float64); ok && t <= 2*o && o <= 2*t {
			return o
		}
	}
	return theirs
}

// stage is a stage of the validation of a request. Errors of earlier stages are
// reported first: AWS checks the fields, the expressions, the table, the keys and
// last the item. DynamoDB Local has no such order.
type stage int

const (
	stageFields stage = iota
	stageExpressions
	stageTable
	stageKeys
	stageItem
	stageUnknown // compared literally
)

// stages maps the beginning of an error to its stage.
var stages = []struct {
	stage stage
	begin string
}{
	{stageFields, "ValidationException: 1 validation error detected"},
	{stageFields, "ValidationException: Invalid table/index name"},
	{stageFields, "ValidationException: Return values set to invalid value"},
	{stageFields, "ValidationException: The parameter cannot be converted"},
	{stageFields, "ValidationException: Input collection contains duplicates"},
	{stageFields, "ValidationException: One or more parameter values were invalid: Input collection of type BS"},
	{stageFields, "ValidationException: One or more parameter values were invalid: An "},
	{stageFields, "ValidationException: One or more parameter values were invalid: Binary sets"},
	{stageFields, "ValidationException: One or more parameter values were invalid: Null"},
	{stageFields, "ValidationException: Number overflow"},
	{stageFields, "ValidationException: Number underflow"},
	{stageFields, "ValidationException: Attempting to store more than"},
	{stageFields, "ValidationException: Limit must be"},
	{stageFields, "ValidationException: Select must be"},
	{stageFields, "ValidationException: Must specify the AttributesToGet or ProjectionExpression"},
	{stageFields, "ValidationException: Cannot specify the ProjectionExpression when"},
	{stageFields, "ValidationException: ALL_PROJECTED_ATTRIBUTES can be used only"},
	{stageExpressions, "ValidationException: Key attributes must be scalars"},
	{stageExpressions, "ValidationException: Query condition missed key schema element"},
	{stageExpressions, "ValidationException: Invalid condition in KeyConditionExpression"},
	{stageExpressions, "ValidationException: ExpressionAttribute"},
	{stageExpressions, "ValidationException: Value provided in ExpressionAttribute"},
	{stageExpressions, "ValidationException: Invalid ConditionExpression"},
	{stageExpressions, "ValidationException: Invalid FilterExpression"},
	{stageExpressions, "ValidationException: Invalid KeyConditionExpression"},
	{stageExpressions, "ValidationException: Invalid ProjectionExpression"},
	{stageExpressions, "ValidationException: Invalid UpdateExpression"},
	{stageExpressions, "ValidationException: One or more parameter values were invalid: ADD action"},
	{stageExpressions, "ValidationException: One or more parameter values were invalid: DELETE action"},
	{stageExpressions, "ValidationException: One or more parameter values were invalid: ComparisonOperator"},
	{stageExpressions, "ValidationException: One or more parameter values were invalid: AttributeValues inside"},
	{stageExpressions, "ValidationException: One or more parameter values were invalid: Duplicate value"},
	{stageExpressions, "ValidationException: One or more parameter values were invalid: Value or AttributeValueList must be"},
	{stageExpressions, "ValidationException: One or more parameter values were invalid: Invalid number of argument(s)"},
	{stageExpressions, "ValidationException: One or more parameter values were invalid: Value cannot be used when"},
	{stageExpressions, "ValidationException: One or more parameter values were invalid: Exists is set to"},
	{stageExpressions, "ValidationException: The BETWEEN condition was provided"},
	{stageExpressions, "ValidationException: ConditionalOperator can only be used"},
	{stageExpressions, "ValidationException: ConditionalOperator cannot be used without"},
	{stageTable, "ResourceNotFoundException"},
	{stageTable, "ValidationException: The table does not have the specified index"},
	{stageKeys, "ValidationException: Consistent reads are not supported"},
	{stageKeys, "ValidationException: One or more parameter values were invalid: Select type ALL_ATTRIBUTES"},
	{stageKeys, "ValidationException: One or more parameter values were invalid: Secondary index"},
	{stageKeys, "ValidationException: Provided list of item keys contains duplicates"},
	{stageKeys, "ValidationException: One or more parameter values were invalid: Type mismatch for Index Key"},
	{stageKeys, "ValidationException: One or more parameter values are not valid. secondary index key"},
	{stageKeys, "ValidationException: The provided key element does not match the schema"},
	{stageKeys, "ValidationException: Invalid attribute value type"},
	{stageKeys, "ValidationException: One or more parameter values were invalid: Missing the key"},
	{stageKeys, "ValidationException: One or more parameter values were invalid: Type mismatch for key"},
	{stageKeys, "ValidationException: One or more parameter values are not valid. The AttributeValue for a key attribute"},
	{stageKeys, "ValidationException: One or more parameter values were invalid: Cannot update attribute"},
	{stageKeys, "ValidationException: Transaction request cannot include multiple operations"},
	{stageKeys, "ValidationException: The provided starting key"},
	{stageKeys, "ValidationException: Filter Expression can only contain non-primary key"},
	{stageKeys, "ValidationException: Type mismatch for attribute to update"},
	{stageItem, "ConditionalCheckFailedException"},
	{stageItem, "TransactionCanceledException"},
	{stageItem, "ValidationException: The document path provided"},
	{stageItem, "ValidationException: The provided expression refers to"},
	{stageItem, "ValidationException: An operand in the update expression"},
}

func stageOfReply(a *reply) stage {
	text := a.code + ": " + a.message
	for _, s := range stages {
		if strings.HasPrefix(text, s.begin) {
			return s.stage
		}
	}
	return stageUnknown
}

// allowOtherOrder accepts that the sides report different errors of a request with
// several: of the same stage, or ours of an earlier stage. Whether each error is
// one for both sides is tested by requests with a single error. For transactions,
// ours checks one action after the other; for other requests, it checks some
// fields after the expressions.
func allowOtherOrder(c apiCall, ours, theirs *reply) {
	our, their := stageOfReply(ours), stageOfReply(theirs)
	if our == stageUnknown || their == stageUnknown || reflect.DeepEqual(ours, theirs) {
		return
	}
	sameStage := our == their && ours.code == theirs.code && messageKind(ours.message) != messageKind(theirs.message)
	late := isMultiRequest(c) && our < stageItem && their < stageItem || our == stageExpressions && their == stageFields
	sums := our == stageItem && ours.code == theirs.code && isNumberRangeError(theirs.message)
	if our < their || sameStage || late || sums {
		*theirs = *ours
	}
}

// onlyDeletes reports whether a call is a transaction of deletions only.
func onlyDeletes(c apiCall) bool {
	in, ok := c.in.(*dynamodb.TransactWriteItemsInput)
	return ok && !slices.ContainsFunc(in.TransactItems, func(a types.TransactWriteItem) bool { return a.Delete == nil })
}

// filtersPartialItems reports whether a call is a Scan with a filter on an index
// that projects only part of each item.
func filtersPartialItems(c apiCall) bool {
	in, ok := c.in.(*dynamodb.ScanInput)
	return ok && (in.FilterExpression != nil || in.ScanFilter != nil) && in.IndexName != nil && *in.IndexName != "all" && *in.IndexName != "local"
}

// isNumberRangeError reports whether a message is about the range or precision of
// a number, in the request or as the result of an update's arithmetic.
func isNumberRangeError(message string) bool {
	for _, begin := range []string{"Number overflow", "Number underflow", "Attempting to store more than"} {
		if strings.HasPrefix(message, begin) {
			return true
		}
	}
	return false
}

// isDefinition reports whether a call defines or changes a table.
func isDefinition(c apiCall) bool {
	switch c.in.(type) {
	case *dynamodb.CreateTableInput, *dynamodb.UpdateTableInput, *dynamodb.UpdateTimeToLiveInput:
		return true
	}
	return false
}

// isMultiRequest reports whether a call is a transaction or a batch.
func isMultiRequest(c apiCall) bool {
	switch c.in.(type) {
	case *dynamodb.TransactWriteItemsInput, *dynamodb.TransactGetItemsInput, *dynamodb.BatchWriteItemInput, *dynamodb.BatchGetItemInput:
		return true
	}
	return false
}

var kind = regexp.MustCompile(`^((?:Invalid \w+|ExpressionAttribute\w+ contains invalid \w+|One or more parameter values were invalid): )?([^;:]*).*$`)

// messageKind returns a message without its details.
func messageKind(message string) string { return kind.ReplaceAllString(message, "$1$2") }
