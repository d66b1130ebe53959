// Package httpconn reduces the system calls of a server that writes whole pages, and what they and
// requests to origins cost Go's scheduler, closes the connections of clients that do not read, and limits how many
// connections clients have.
package httpconn
