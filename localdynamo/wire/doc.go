// Package wire serves a localdynamo.DB over DynamoDB's own HTTP protocol, so
// that the AWS SDKs of all languages and the aws command work against it with
// nothing but another endpoint.
//
// The problem: programs that are not written in Go, or run in another
// process, want the same engine, and must not be able to tell its answers
// from those of AWS, errors included.
//
// The model: a Handler is an http.Handler without any state of its own but
// buffers. A request goes through it in one piece:
//
//	POST /, X-Amz-Target: DynamoDB_20120810.GetItem
//	   │ target known? Authorization well formed?
//	   ├─ body, at most 16 MiB, unpacked if gzip or deflate ─ signature, if there is a key
//	   ├─ JSON ─► *dynamodb.GetItemInput ─ required members there?
//	   ├─ (*localdynamo.DB).GetItem
//	   └─ *dynamodb.GetItemOutput or error ─► JSON, CRC-32, request id
//
// The structs are those of the SDK for Go, whose fields have the names of the
// JSON members; New compiles a plan for each, and attribute values, which are
// most of every message, are read and written by hand.
//
// What is guaranteed: every request gets an answer with a request id and the
// CRC-32 of its body, whatever bytes it consists of; no answer is sent before
// the engine has committed; and a client that goes away before its write was
// picked up takes it back.
//
// localdynamo's FIDELITY.md lists what is left out.
package wire
