// Package httpconn reduces the system calls of a server that writes whole pages, and closes
// the connections of clients that do not read.
package httpconn
