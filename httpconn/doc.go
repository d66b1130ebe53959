// Package httpconn reduces the system calls of a server that writes whole pages, and what they and
// requests to origins cost Go's scheduler, and closes the connections of clients that do not read.
package httpconn
