// Package httpconn reduces the system calls of a server that writes whole pages, and what they and
// requests to origins cost Go's scheduler, closes the connections of clients that do not read, and limits how many
// connections clients have.
package httpconn

// The files:
//
//	fastpath.go, response.go  answer requests between the requests that net/http reads, directly or by a handler
//	connections.go            how many connections clients have; closes idle ones
//	framing.go, handshake.go  close connections on which it is ambiguous where a request ends, within TLS too
//	direct.go                 sends plain requests to origins in the goroutine of the caller
