// Package wire serves a localdynamo.DB over DynamoDB's HTTP protocol. The AWS SDKs of
// all languages and the aws command line work against it with only a different
// endpoint.
//
// Programs in other languages, or in another process, use the same engine through it
// and get the responses that AWS would send, errors included.
//
// A Handler is an http.Handler without state other than buffers. A request passes
// through it like this:
//
//	POST /, X-Amz-Target: DynamoDB_20120810.GetItem
//	   │ known target? well-formed Authorization?
//	   ├─ body of at most 16 MiB ─ signature, if keys are set ─ decompress gzip or deflate
//	   ├─ JSON ─► *dynamodb.GetItemInput ─ required members
//	   ├─ (*localdynamo.DB).GetItem
//	   └─ *dynamodb.GetItemOutput or error ─► JSON, CRC-32, request id
//
// The structs are the SDK's for Go, whose field names are the names of the JSON
// members. New compiles a plan for each struct. Attribute values, which are the bulk of
// every message, have hand-written codecs.
//
// Guarantees: every request, even malformed, gets a response with a request id and
// the CRC-32 of the response body; no response is sent before the engine has committed;
// and a write is canceled if its client disconnects before the engine has started it.
//
// localdynamo's FIDELITY.md lists the unsupported features.
package wire
