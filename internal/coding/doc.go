// Package coding makes the content codings of pages, and reads and writes the object that
// keeps the codings of one body (a [Set]). Which coding a client gets is a matter of package
// httpcache.
package coding
