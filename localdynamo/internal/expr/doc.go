// Package expr implements DynamoDB's expression language: condition, filter,
// key-condition, projection and update expressions.
//
//	text ── lex ── parse ──► Parsed ──┐ cached by text; independent of values
//	names, values ── Scope ───────────┴─ bind, check ──► Condition   .Match(document)
//	                                                     Update      .Apply(item)
//	                                                     Projection  .Apply(document)
//	                                                     KeyCondition
//
// Parsing takes time linear in the text, which has at most 4,096 bytes. The number
// of operators, at most 300, bounds its recursion. The parser checks everything that
// does not depend on names and values; binding checks what does, before any item is
// read; evaluation checks what depends on the item. Every error is a validation error
// with AWS's message.
//
// Parsed and bound expressions are immutable and safe for concurrent use. A Scope
// belongs to one request.
package expr
