// Package expr is the expression language of DynamoDB: condition, filter,
// key-condition, projection and update expressions.
//
//	text ── lex ── parse ──► Parsed ──┐ cached by text; knows no values
//	names, values ── Scope ───────────┴─ bind, check ──► Condition   .Match(document)
//	                                                     Update      .Apply(item)
//	                                                     Projection  .Of(document)
//	                                                     KeyCondition
//
// Parsing takes time linear in the text, which is at most 4,096 bytes, and
// recurses no deeper than the 300 operators that an expression may have. What
// does not depend on names and values is decided once, by the parser; what
// does is decided when an expression is bound, before any item is read; only
// what depends on the item is left to evaluation. Every error is the caller's
// fault and carries the words of AWS.
//
// Parsed expressions are immutable and may be shared by goroutines; so may
// bound ones. A Scope belongs to one request.
package expr
