// Package http3 serves HTTP/3 (RFC 9114) beside the listener of TCP at the same port. It bounds what clients can have of a
// server by QUIC (RFC 9000), accepts early data (0-RTT) of safe requests alone, and lets servers follow each other at one
// socket, as a reload does it.
//
// quic-go is the transport. Three things are left to this package: connections per client (limits.go), requests as handlers of
// net/http expect them (request.go), and the socket, its servers and their end (socket.go, server.go).
package http3
